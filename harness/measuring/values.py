"""The numbers of a timing group, from the samples of its rounds.

All times are medians over rounds, all speed-ups medians of ratios formed within a round, so that what drifts between
rounds cancels. Rounds in which something else had the processor are left out; where too few others remain, all are used
and the values carry a `flag` that says so, as they do where there were too few rounds at all.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..method import Method, Speculative
from .rounds import FEWEST, value
from .running import Runs
from .samples import Sample, Trace

SHORTER = 0.05  # a mean output length this much below the baseline's is flagged


def exact(number: float | None) -> dict:
    """A number that repeats exactly, so without an interval."""
    return {"value": number, "low": None, "high": None}


def method_entry(runs: Runs, baseline: Runs, prompt_tokens: int) -> dict:
    """`values`, `flags`, `raw` and the counted trace of one method; `prompt_tokens` are those of all rows."""
    trace = runs.trace
    kept, doubt = believed([baseline, runs])
    rounds = [(baseline.samples[i], runs.samples[i]) for i in kept]  # the baseline's sample and the method's
    samples, per_token = [ours for _, ours in rounds], baseline.trace.steps and trace.steps
    shorter = _shorter(trace, baseline.trace)
    timed = {
        "speedup_wall": value(_ratios(rounds, "decode_s", trace.steps / baseline.trace.steps) if per_token else []),
        "speedup_total": value(_ratios(rounds, "call_s")),
        **_times(samples, trace),
        "throughput_with_prompt": value([(prompt_tokens + trace.tokens) / s.call_s for s in samples if s.call_s]),
    }
    timed = flagged(timed, doubt)
    timed["speedup_wall"] |= _beyond_layers(timed["speedup_wall"], runs, baseline)
    if shorter:
        timed["speedup_total"] |= {"flag": "; ".join(filter(None, (shorter, doubt)))}
    names = ("prefill_s", "decode_s", "call_s", "cpu_share")
    return {
        "values": {**timed, **_counted(runs), "cpu_share": exact(_share(runs.samples))},
        "flags": [*filter(None, (shorter, doubt))],
        "raw": {"first_run_s": runs.first_s, **{name: [getattr(s, name) for s in runs.samples] for name in names}},
        "kv_bytes_by_step": runs.kv_by_step,
        "trace": vars(trace),
    }


def believed(runs: Sequence[Runs]) -> tuple[list[int], str | None]:
    """The rounds in which none of the runs was disturbed; if too few are left, all of them.

    Beside them what must be said of numbers from these rounds, if anything must.
    """
    rounds = [*zip(*(one.samples for one in runs), strict=True)]
    if len(rounds) < FEWEST:
        return [*range(len(rounds))], f"too few rounds: {len(rounds)}, and an interval needs {FEWEST}"
    quiet = [i for i, samples in enumerate(rounds) if not any(sample.disturbed for sample in samples)]
    if len(quiet) >= FEWEST:
        return quiet, None
    share = _share([sample for samples in rounds for sample in samples])
    busy = f"busy machine: a processor was there for {100 * share:.0f} % of the time only; measure again"
    return [*range(len(rounds))], busy


def flagged(values: dict[str, dict], doubt: str | None) -> dict[str, dict]:
    """The values, each with the flag if there is a doubt."""
    return {name: entry | {"flag": doubt} for name, entry in values.items()} if doubt else values


def _share(samples: list[Sample]) -> float | None:
    known = [sample.cpu_share for sample in samples if sample.cpu_share is not None]
    return float(np.mean(known)) if known else None


def _ratios(rounds: Sequence[tuple[Sample, Sample]], name: str, factor: float = 1.0) -> list[float]:
    """Baseline's time over the method's, round by round; a time of 0 gives no ratio."""
    times = ((getattr(theirs, name), getattr(ours, name)) for theirs, ours in rounds)
    return [factor * a / b for a, b in times if a and b]


def _times(samples: list[Sample], trace: Trace) -> dict:
    decoded = trace.tokens - trace.rows  # the first token of each row belongs to the prefill
    return {
        "decode_ms_per_token": value([1e3 * s.decode_s / trace.steps for s in samples if trace.steps]),
        "tokens_per_s": value([decoded / s.decode_s for s in samples if s.decode_s]),
        "prefill_ms": value([1e3 * s.prefill_s for s in samples]),
        "time_to_first_token_ms": value([1e3 * s.first_token_s for s in samples]),
    }


def _counted(runs: Runs) -> dict:
    trace = runs.trace
    plain = {
        **_speed(runs.entry.method, trace),
        "output_tokens_mean": trace.tokens / trace.rows,
        "kv_bytes_peak": trace.kv_bytes,
        "kv_bytes_mean": sum(runs.kv_by_step) / len(runs.kv_by_step) if runs.kv_by_step else None,
        "memory_bytes_peak": runs.memory,
    }
    return {name: exact(number) for name, number in plain.items()}


def _speed(method: Method, trace: Trace) -> dict:
    """Layer-count speed-ups, or what speaks for a method that guesses, which runs as many layers or more."""
    if isinstance(method, Speculative):
        return {"acceptance_rate": trace.acceptance, "passes_per_token": trace.heads}
    return {
        "speedup_layers": method.num_layers / trace.needed if trace.needed else None,
        "speedup_layers_batch": method.num_layers / trace.layers if trace.layers else None,
    }


def _beyond_layers(wall: dict, runs: Runs, baseline: Runs) -> dict:
    """A flag on a speed-up that lies wholly above the ratio of layers run: the method alone cannot be what made it."""
    if isinstance(runs.entry.method, Speculative) or wall["low"] is None or not runs.trace.layers:
        return {}
    layers = baseline.trace.layers / runs.trace.layers
    if wall["low"] <= layers:
        return {}
    flag = f"faster than {layers:.2f}x fewer layers can explain; part of the gain is the machine's, as where "
    flag += "its caches hold a few layers but not all"
    return {"flag": "; ".join(filter(None, (flag, wall.get("flag"))))}


def _shorter(trace: Trace, baseline: Trace) -> str | None:
    ours, theirs = (t.tokens / t.rows for t in (trace, baseline))
    if ours >= theirs * (1 - SHORTER):
        return None
    return f"shorter output: {ours:.1f} tokens against {theirs:.1f}, so the end-to-end speed-up is not one of speed"
