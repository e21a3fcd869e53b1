"""The numbers of a timing group, from the samples of its rounds.

All times are medians over rounds, all speed-ups medians of ratios formed within a round, so that what drifts between
rounds cancels. Rounds in which something else had the processor are left out; where too few others remain, all are used
and the values carry a `flag` that says so.
"""

from __future__ import annotations

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
    rounds, busy = _undisturbed([*zip(baseline.samples, runs.samples, strict=False)])
    samples, per_token = [ours for _, ours in rounds], baseline.trace.steps and trace.steps
    shorter = _shorter(trace, baseline.trace)
    timed = {
        "speedup_wall": value(_ratios(rounds, "decode_s", trace.steps / baseline.trace.steps) if per_token else []),
        "speedup_total": value(_ratios(rounds, "call_s")),
        **_times(samples, trace),
        "throughput_with_prompt": value([(prompt_tokens + trace.tokens) / s.call_s for s in samples if s.call_s]),
    }
    if busy:
        timed = {name: entry | {"flag": busy} for name, entry in timed.items()}
    if shorter:
        timed["speedup_total"] |= {"flag": "; ".join(filter(None, (shorter, busy)))}
    names = ("prefill_s", "decode_s", "call_s", "cpu_share")
    return {
        "values": {**timed, **_counted(runs), "cpu_share": exact(_share(runs.samples))},
        "flags": [*filter(None, (shorter, busy))],
        "raw": {"first_run_s": runs.first_s, **{name: [getattr(s, name) for s in runs.samples] for name in names}},
        "kv_bytes_by_step": runs.kv_by_step,
        "trace": vars(trace),
    }


Rounds = list[tuple[Sample, Sample]]  # the baseline's sample and the method's, round by round


def _undisturbed(rounds: Rounds) -> tuple[Rounds, str | None]:
    """The rounds to believe; if too few are left, all of them and what must be said about it."""
    quiet = [pair for pair in rounds if not any(sample.disturbed for sample in pair)]
    if len(quiet) >= min(FEWEST, len(rounds)):
        return quiet, None
    share = np.mean([sample.cpu_share for pair in rounds for sample in pair])
    return rounds, f"busy machine: a processor was there for {100 * share:.0f} % of the time only; measure again"


def _share(samples: list[Sample]) -> float | None:
    known = [sample.cpu_share for sample in samples if sample.cpu_share is not None]
    return float(np.mean(known)) if known else None


def _ratios(rounds: Rounds, name: str, factor: float = 1.0) -> list[float]:
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


def _shorter(trace: Trace, baseline: Trace) -> str | None:
    ours, theirs = (t.tokens / t.rows for t in (trace, baseline))
    if ours >= theirs * (1 - SHORTER):
        return None
    return f"shorter output: {ours:.1f} tokens against {theirs:.1f}, so the end-to-end speed-up is not one of speed"
