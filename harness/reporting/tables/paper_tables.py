"""The tables of a report as data: whose rows, which columns, what the paper printed, and why ours may differ.

A column is one word: `task`, `model`, `method`, `target`, `checkpoint`; `param:NAME`; `metrics` (the task's quality
metrics); a metric's name, or `NAME@B` for its value in the timing at batch size B; `paper:NAME` for a published figure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from ..panels import Panel
from ..points import FLOOR, REFERENCE, Point, Value, slug
from ..words import guarantee_title, metric, panel_title, source_title, target_title, task_title
from .equal_speed import equal_speed_tables
from .papers import adaskip_rows, calm_rows, tgen_rows, unified_figures
from .table import Cell, Column, Table, mark_best

SPEEDS = ("speedup_layers", "speedup_layers_batch", "speedup_reads", "speedup_predicted", "speedup_wall",
          "speedup_total")  # fmt: skip
UNREAD = "The paper's own table could not be read, so no figure of it stands here. "


@dataclass(frozen=True)
class Spec:
    """One kind of table. `each`: a table for every panel, else one over all panels that have one of `needs`."""

    id: str
    title: str
    columns: tuple[str, ...]
    methods: tuple[str, ...] | None = None  # None: all
    needs: tuple[str, ...] = ()  # methods of which one must be there
    checkpoint: str | None = None  # only runs of this kind of checkpoint
    note: str = ""
    each: bool = True
    beside: bool = False  # with other models' panels of the same task, by depth
    compares: bool = False  # says which published numbers the task's own can be compared with
    drop_empty: bool = False
    paper: Callable[[Point], dict | None] | None = None
    paper_rows: Callable[[Panel], list[dict]] | None = None


SPECS = (
    Spec(
        "quality", "Quality and layers", ("method", "target", "checkpoint", "metrics", "token_accuracy", "loss",
        "output_tokens", "truncated_prompts", "unfinished_outputs", "speedup_layers", "speedup_layers_batch",
        "speedup_layers_std"), drop_empty=True, compares=True, paper_rows=tgen_rows,
        note="95 % intervals over examples; of several seeds the mean and the range, without an interval. Bold: the "
        "best of the methods at one target.",
    ),
    Spec(
        "cost", "Speed-ups, overhead and memory", ("method", "target", "checkpoint", "batch", *SPEEDS, "output_tokens",
        "overhead_ms", "tokens_per_s", "time_to_first_token_ms", "throughput_with_prompt", "output_tokens_mean",
        "kv_bytes_peak", "kv_bytes_mean", "memory_bytes_peak"), drop_empty=True,
        note="Speed-ups are against full in the same timing group: same dtype, batch, threads and output length. A "
        "clock's figure without an interval comes from one round and may be far off. Timed outputs have one forced "
        "length; “output tokens” are those of the test outputs, where shorter output is the commonest false win.",
    ),
    Spec(
        "skipdecode-main", "SkipDecode's main table: quality by target",
        ("task", "model", "data", "method", "target", "metrics", "token_accuracy", "speedup_layers", "speedup_wall"),
        methods=(REFERENCE, "skipdecode"), needs=("skipdecode",), each=False,
        note=UNREAD + "It used OPT-350M to OPT-2.7B and other checkpoints and metrics than ours. The layer speed-up is "
        "the paper's true speed-up: the prompt is left out. The clock's is at the smallest batch size that was "
        "timed and at one output length for all, where a schedule's layer speed-up may be another: see “Speed-ups”.",
    ),
    Spec(
        "unified-main", "Unified Layer Skipping's table: quality and throughput", ("method", "target", "metrics",
        "throughput_with_prompt@1", "throughput_with_prompt@2", "throughput_with_prompt@8", "speedup_layers",
        "paper:bleu", "paper:tokens_per_s_bs1", "paper:tokens_per_s_bs2", "paper:tokens_per_s_bs8"),
        methods=(REFERENCE, "calm", "skipdecode", "unified"), needs=("unified",), paper=unified_figures,
        drop_empty=True,
        note="Paper: BLOOMZ-7B1, WMT22 average BLEU, one A100, tokens/s of prompt and output (batch 1, 2, 8); its 5x "
        "stands beside our 6x where 5x cannot be met by whole layers. Model, data and machine differ from ours, so "
        "compare orders and ratios, not figures.",
    ),
    Spec(
        "calm-main", "CALM's table: layers and speed-up by confidence and guarantee", ("method", "target",
        "param:confidence", "param:threshold", "guarantee", "layers_mean", "speedup_layers", "speedup_wall@1",
        "metrics"), methods=("calm",), needs=("calm",), paper_rows=calm_rows,
        note="Paper: T5 1.1 with 8 + 8 layers, batch 1, TPUv3; an encoder-decoder, so its layer counts and clock "
        "differ from ours.",
    ),
    Spec(
        "speed-main", "SPEED's table: quality and latency by depth, sequential (full) and pipelined (speed)", ("task",
        "model", "depth", "cycles", "method", "metrics", "decode_ms_per_token@1", "speedup_wall@1",
        "decode_ms_per_token@8", "speedup_wall@8", "acceptance_rate", "passes_per_token", "weight_reads_per_token",
        "speedup_reads"), methods=(REFERENCE, "speed"), needs=("speed",), each=False, beside=True,
        note=UNREAD + "Depth counts layers run, of which each cycle runs the same ones. A layer speed-up does not "
        "describe SPEED, which runs as many layers or more; a pass reads the shared weights and the head once. "
        "Speed-ups are against full on the same model, in the same timing group, at forced output length; acceptance, "
        "passes and weights are those of the test outputs. Both ways of decoding share one checkpoint.",
    ),
    Spec(
        "untuned", "Without fine-tuning: base checkpoints", ("method", "target", "metrics", "speedup_layers",
        "speedup_wall", "paper:govreport_rougeL", "paper:multinews_rougeL"), checkpoint="base",
        paper_rows=adaskip_rows,
        note="AdaSkip (arXiv 2501.02336): 7B and 8B models of 32 layers, two summary tasks, ROUGE-L, layers skipped in "
        "decoding only; its “unified_modulo” skips every (L//K)-th layer, which is not the official rule.",
    ),
)  # fmt: skip


def build(groups: Sequence[Panel]) -> list[Table]:
    """Every table for which there are rows."""
    return [table for spec in SPECS for table in _tables(spec, groups)] + equal_speed_tables(groups)


def _tables(spec: Spec, groups: Sequence[Panel]) -> list[Table]:
    fitting = [g for g in groups if any(_wanted(spec, p) and p.method in (spec.needs or (p.method,)) for p in g.points)]
    if spec.each:
        return [_table(spec, [panel]) for panel in fitting]
    if spec.beside:
        fitting = _beside(spec, fitting, groups)
    return [_table(spec, fitting)] if fitting else []


def _beside(spec: Spec, fitting: Sequence[Panel], groups: Sequence[Panel]) -> list[Panel]:
    """The panels, and those of other models on the same tasks, shallow ones first."""
    tasks = {panel.config["task"] for panel in fitting}
    joined = [g for g in groups if g.config["task"] in tasks and any(_wanted(spec, p) for p in g.points)]
    return sorted(joined, key=lambda g: (g.config["task"], g.config["model"]["num_layers"], g.config["model"]["name"]))


def _wanted(spec: Spec, point: Point) -> bool:
    return point.method in (spec.methods or (point.method,)) and spec.checkpoint in (None, point.checkpoint)


def _table(spec: Spec, groups: Sequence[Panel]) -> Table:
    points = [p for panel in groups for p in ordered(panel) if _wanted(spec, p)]
    words = [w for column in spec.columns for w in _expanded(column, points)]
    entries = _timed_entries(points) if "batch" in words else [(p, None) for p in points]
    home = {id(p): i for i, panel in enumerate(groups) for p in panel.methods}
    rows = mark_best([[_cell(spec, p, w, size) for w in words] for p, size in entries],
                     [_rivals(p, home.get(id(p)), size) for p, size in entries])  # fmt: skip
    keys = [row_keys(p) for p, _ in entries]
    for extra in spec.paper_rows(groups[0]) if spec.paper_rows else []:
        rows.append([_paper_cell(extra.get(w), w) for w in words])
        keys.append(keys[0] | {"method": extra["method"]})
    kept = [i for i, w in enumerate(words) if not spec.drop_empty or any(_filled(row[i]) for row in rows)]
    return Table(
        f"{groups[0].slug}_{spec.id}" if spec.each else spec.id,
        f"{spec.title}. {_places(groups)}",
        [_column(words[i]) for i in kept],
        [[row[i] for i in kept] for row in rows],
        spec.note + (_comparable(groups[0]) if spec.compares else ""),
        keys,
    )


def _comparable(panel: Panel) -> str:
    told = " ".join(str(panel.config.get("comparable") or "").split())
    return told and f" Beside published numbers: {told}"


def _timed_entries(points: Sequence[Point]) -> list[tuple[Point, int | None]]:
    """A row a point and batch size, batch by batch, by target in each; what was never timed stands without."""
    entries = [(p, size) for p in points if p.method != FLOOR for size in _batches(p)]
    return sorted(entries, key=lambda e: (e[1] or 0, e[0].method != REFERENCE, e[0].target or 0))


def _places(groups: Sequence[Panel]) -> str:
    if len(groups) == 1:
        return panel_title(groups[0].config)
    return "; ".join(sorted({source_title(g.config.get("source")) for g in groups}))


def ordered(panel: Panel) -> list[Point]:
    """Reference first, then by target and method, floors last."""
    rank = {REFERENCE: 0, FLOOR: 2}
    return sorted(panel.points, key=lambda p: (rank.get(p.method, 1), p.target or 0, p.label, p.variant))


def row_keys(point: Point) -> dict:
    """What a reader may filter a row by."""
    return {"task": task_title(point.task), "method": point.method, "model": point.model or FLOOR}


def _expanded(column: str, points: Sequence[Point]) -> list[str]:
    if column != "metrics":
        return [column]
    return list(dict.fromkeys(m for p in points for m in p.metrics))


def _batches(point: Point) -> list[int | None]:
    return sorted({t.batch_size for t in point.timings}) or [None]


def _rivals(point: Point, panel: int | None, batch_size: int | None) -> tuple | None:
    """Rows among which the best is sought: the methods of one panel at one target and batch size."""
    if point.method in (REFERENCE, FLOOR) or point.target is None:
        return None
    return (panel, point.target, point.checkpoint, batch_size)


def _cell(spec: Spec, point: Point, word: str, batch_size: int | None) -> Cell:
    if word in WORDS:
        return Cell(WORDS[word](point))
    if word == "batch":
        return Cell(*([str(batch_size)] if batch_size else []))
    if word.startswith("param:"):
        value = point.params.get(word[6:])
        return Cell(*([f"{value:.4g}" if isinstance(value, float) else str(value)] if value is not None else []))
    if word.startswith("paper:"):
        figures = spec.paper(point) if spec.paper else None
        return _paper_cell((figures or {}).get(word[6:]), word)
    name, _, size = word.partition("@")
    value = point.get(name, int(size) if size else batch_size)
    return Cell(value=value or point.get(name) if batch_size and name not in _timed(point) else value, name=name)


def _timed(point: Point) -> set[str]:
    return {name for timing in point.timings for name in timing.values}


def _paper_cell(value: object, word: str) -> Cell:
    if isinstance(value, float):
        return Cell(value=Value(value), name=_paper_name(word))
    return Cell(str(value)) if value else Cell()


def _paper_name(word: str) -> str:
    return word.removeprefix("paper:").partition("@")[0]


def _column(word: str) -> Column:
    if word in WORDS or word == "batch" or word.startswith("param:"):
        return Column(word.removeprefix("param:"))
    name, _, size = word.removeprefix("paper:").partition("@")
    title = metric(name).title
    paper = "paper: " if word.startswith("paper:") else ""
    return Column(paper + title + (f", batch {size}" if size else ""), _paper_name(word))


def _filled(cell: Cell) -> bool:
    return bool(cell.value) if cell.name else cell.text != Cell().text


WORDS: dict[str, Callable[[Point], str]] = {
    "task": lambda p: task_title(p.task),
    "model": lambda p: p.model,
    "data": lambda p: source_title(p.config.get("source")),
    "depth": lambda p: str(p.num_layers),
    "cycles": lambda p: str((p.config.get("model") or {}).get("num_cycles") or Cell().text),
    "method": lambda p: f"floor: {p.variant}" if p.method == FLOOR else p.label or p.method,
    "target": lambda p: target_title(p.target),
    "guarantee": lambda p: guarantee_title(p.tuned) or Cell().text,
    "checkpoint": lambda p: slug(Path(p.checkpoint).name) or Cell().text,
}
