"""How metrics, tasks and numbers are written in tables, plots and the report."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from .points import Value

MISSING = "–"
FLAGGED = "†"
NO_TARGET = "no target"

NUMBER = re.compile(r"\d+(?:\.\d+)?")


@dataclass(frozen=True)
class Metric:
    """Name and unit for people, digits to show, a factor for the unit, and which way is better (1, -1, 0)."""

    title: str
    digits: int = 2
    better: int = 1
    scale: float = 1.0


METRICS = {
    "e2e_bleu": Metric("E2E BLEU", 1),
    "bleu": Metric("BLEU", 1),
    "chrf": Metric("chrF2", 1),
    "rouge1": Metric("ROUGE-1", 1),
    "rouge2": Metric("ROUGE-2", 1),
    "rougeL": Metric("ROUGE-L", 1),
    "rougeLsum": Metric("ROUGE-Lsum", 1),
    "e2e_rougeL": Metric("E2E ROUGE-L", 1),
    "govreport_rougeL": Metric("GovReport ROUGE-L", 1),
    "multinews_rougeL": Metric("Multi-News ROUGE-L", 1),
    "nist": Metric("NIST"),
    "e2e_nist": Metric("E2E NIST"),
    "cider": Metric("CIDEr"),
    "e2e_cider": Metric("E2E CIDEr"),
    "length_ratio": Metric("length ratio", 2, 0),
    "empty": Metric("empty outputs (share)", 3, -1),
    "repetition": Metric("repetition", 3, -1),
    "token_accuracy": Metric("token accuracy (%)", 1),
    "loss": Metric("loss (nats/token)", 3, -1),
    "truncated_prompts": Metric("prompts cut", 0, 0),
    "unfinished_outputs": Metric("outputs without end", 0, -1),
    "output_tokens": Metric("output tokens", 1, 0),
    "output_tokens_mean": Metric("output tokens, timed", 1, 0),
    "prompt_tokens": Metric("prompt tokens", 1, 0),
    "time_to_first_token_ms": Metric("time to first token (ms)", 1, -1),
    "memory_bytes_peak": Metric("peak memory (MiB)", 0, -1, 1 / 1024**2),
    "speedup_layers": Metric("layer speed-up", 2),
    "speedup_layers_batch": Metric("layer speed-up of the batch", 2),
    "speedup_layers_std": Metric("std of layer speed-up", 2, -1),
    "speedup_reads": Metric("weight-read speed-up", 2),
    "speedup_wall": Metric("wall-clock speed-up", 2),
    "speedup_total": Metric("end-to-end speed-up", 2),
    "speedup_predicted": Metric("predicted speed-up", 2),
    "speedup_bound": Metric("head-aware bound", 2),
    "tokens_per_s": Metric("tokens/s", 0),
    **{f"tokens_per_s_bs{size}": Metric(f"tokens/s, batch {size}", 0) for size in (1, 2, 8)},
    "throughput_with_prompt": Metric("tokens/s with prompt", 0),
    "decode_ms_per_token": Metric("ms/token", 2, -1),
    "prefill_ms": Metric("prefill (ms)", 1, -1),
    "overhead_ms": Metric("overhead (ms/token)", 3, 0),
    "kv_bytes_peak": Metric("peak KV (KiB)", 0, -1, 1 / 1024),
    "kv_bytes_mean": Metric("mean KV (KiB)", 0, -1, 1 / 1024),
    "layers_mean": Metric("mean layers a token", 2, -1),
    "cpu_share": Metric("share of a processor", 2, 0),
    "acceptance_rate": Metric("guesses accepted", 3),
    "passes_per_token": Metric("passes a token", 2, -1),
    "weight_reads_per_token": Metric("weights read a token (M)", 2, -1, 1e-6),
}
TASKS = {"e2e": "E2E", "reddit_tldr": "Reddit TL;DR", "cnn_dm": "CNN/DailyMail", "translation": "Translation"}


def metric(name: str) -> Metric:
    """How a metric is written; an unknown one under its own name."""
    return METRICS.get(name) or Metric(name.replace("_", " "), 3)


def task_title(task: str) -> str:
    """The task for people: `translation:de-en` is `Translation de-en`."""
    base, _, variant = task.partition(":")
    return " ".join([TASKS.get(base, base), variant]).strip()


def source_title(source: str | None) -> str:
    """Where the examples came from; stand-ins loudly."""
    return {"stand-in": "STAND-IN DATA (made up, not the real task)", "local": "local data", "hub": "hub data"}.get(
        source or "", f"{source} data"
    )


def number(value: float | None, name: str) -> str:
    """A value in the metric's unit and digits; a missing one is a dash."""
    how = metric(name)
    if value is None:
        return MISSING
    if not how.digits and 0 < value * how.scale < 0.5:  # there is some, which a 0 would deny
        return "< 1"
    return f"{value * how.scale:.{how.digits}f}"


def with_interval(value: Value, name: str) -> str:
    """`70.8 [69.1, 72.4]`, plus the range over seeds where there are several, and a mark if it is flagged."""
    text = number(value.value, name) + (FLAGGED if value and value.flag else "")
    if value.low is not None and value.high is not None and value.low != value.high:
        text += f" [{number(value.low, name)}, {number(value.high, name)}]"
    seeds = [number(bound, name) for bound in value.seeds or ()]
    return text + (f" (seeds {seeds[0]}–{seeds[1]})" if len(set(seeds)) > 1 else "")


def target_title(target: float | None) -> str:
    """`2x`, or a dash for a method without a target."""
    return MISSING if target is None else f"{target:g}x"


def guarantee_title(facts: Mapping) -> str:
    """`textual, δ = 0.1` of a threshold that promises something; empty for others."""
    return f"{facts['guarantee']}, δ = {facts['delta']:g}" if facts.get("guarantee") else ""


def model_title(model: dict | None) -> str:
    """`mini-opt (12 layers, 2.7 M parameters)`."""
    model = model or {}
    params = model.get("params")
    size = f", {_count(params)} parameters" if params else ""
    return f"{model.get('name', MISSING)} ({model.get('num_layers', '?')} layers{size})"


def _count(params: int) -> str:
    """`94 k`, `2.7 M`, `135 M`."""
    if params < 1e6:
        return f"{params / 1e3:.0f} k"
    return f"{params / 1e6:.{1 if params < 1e8 else 0}f} M"


def merged_flags(flags: Iterable[str]) -> list[str]:
    """Flags that differ in their numbers alone become one, with the range of each number."""
    alike: dict[str, list[list[str]]] = {}
    for flag in flags:
        alike.setdefault(NUMBER.sub("{}", flag.replace("{", "(").replace("}", ")")), []).append(NUMBER.findall(flag))
    return [text.format(*map(_range, zip(*found, strict=True))) for text, found in alike.items()]


def _range(numbers: Sequence[str]) -> str:
    low, high = min(numbers, key=float), max(numbers, key=float)
    return low if float(low) == float(high) else f"{low}–{high}"


def panel_title(config: dict) -> str:
    """Task, model, source and n of a panel in one line, and what else tells it from others."""
    parts = [task_title(config["task"]), model_title(config.get("model")), source_title(config.get("source"))]
    return " · ".join([*parts, f"n = {config.get('n')}", *filter(None, [config.get("apart")])])
