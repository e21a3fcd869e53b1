"""The numbers of a timing group, from the samples of its rounds.

All times are medians over rounds, all speed-ups medians of ratios formed within a round, so that what drifts between
rounds cancels.
"""

from __future__ import annotations

from collections.abc import Callable

from ..method import Method, Speculative
from .rounds import value
from .running import Runs
from .samples import Sample, Trace

SHORTER = 0.05  # a mean output length this much below the baseline's is flagged


def exact(number: float | None) -> dict:
    """A number that repeats exactly, so without an interval."""
    return {"value": number, "low": None, "high": None}


def method_entry(runs: Runs, baseline: Runs, prompt_tokens: int) -> dict:
    """`values`, `flags`, `raw` and the counted trace of one method; `prompt_tokens` are those of all rows."""
    trace, samples = runs.trace, runs.samples
    note = _shorter(trace, baseline.trace)
    total = value(_paired(baseline, runs, lambda one: [s.call_s for s in one.samples]))
    return {
        "values": {
            "speedup_wall": value(_paired(baseline, runs, lambda one: one.ms)),
            "speedup_total": total | ({"note": note} if note else {}),
            **_times(runs),
            "throughput_with_prompt": value([(prompt_tokens + trace.tokens) / s.call_s for s in samples if s.call_s]),
            **_counted(runs),
        },
        "flags": [note] if note else [],
        "raw": {
            "first_run_s": runs.first_s,
            **{name: [getattr(s, name) for s in samples] for name in ("prefill_s", "decode_s", "call_s")},
        },
        "kv_bytes_by_step": runs.kv_by_step,
        "trace": vars(trace),
    }


def _paired(baseline: Runs, runs: Runs, times: Callable[[Runs], list[float]]) -> list[float]:
    """Baseline's time over the method's, round by round; a time of 0 gives no ratio."""
    return [a / b for a, b in zip(times(baseline), times(runs), strict=False) if a and b]


def _times(runs: Runs) -> dict:
    def per_second(samples: list[Sample], trace: Trace) -> list[float]:
        decoded = trace.tokens - trace.rows  # the first token of each row belongs to the prefill
        return [decoded / s.decode_s for s in samples if s.decode_s]

    return {
        "decode_ms_per_token": value(runs.ms),
        "tokens_per_s": value(per_second(runs.samples, runs.trace)),
        "prefill_ms": value([1e3 * s.prefill_s for s in runs.samples]),
        "time_to_first_token_ms": value([1e3 * s.first_token_s for s in runs.samples]),
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
