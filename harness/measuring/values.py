"""The numbers of a timing group, from the samples of its rounds.

All times are medians over rounds, all speed-ups medians of ratios formed within a round, so that what drifts between
rounds cancels.
"""

from __future__ import annotations

from .rounds import value

SHORTER = 0.05  # a mean output length this much below the baseline's is flagged


def method_entry(runs, baseline, prompt_tokens: int) -> dict:
    """`values`, `raw` and the counted trace of one method; `prompt_tokens` are those of all rows."""
    trace, samples = runs.trace, runs.samples
    values = {
        "speedup_wall": value(paired(baseline, runs, lambda s, t: s.decode_s / t.steps if t.steps else 0.0)),
        "speedup_total": value(paired(baseline, runs, lambda s, t: s.call_s)),
        **_times(samples, trace),
        "throughput_with_prompt": value([(prompt_tokens + trace.tokens) / s.call_s for s in samples if s.call_s]),
        **_counted(trace, runs.entry.method.num_layers),
    }
    note = _shorter(trace, baseline.trace)
    if note:
        values["speedup_total"]["note"] = note
    return {
        "values": values,
        "flags": [note] if note else [],
        "raw": {
            "first_run_s": runs.first_s,
            **{name: [getattr(s, name) for s in samples] for name in ("prefill_s", "decode_s", "call_s")},
        },
        "trace": {
            "steps": trace.steps, "tokens": trace.tokens, "layers_run": trace.layers, "layers_needed": trace.needed,
            "keys_only": trace.keys_only, "heads": trace.heads, "asks": trace.asks,
        },
    }  # fmt: skip


def paired(baseline, runs, seconds) -> list[float]:
    """Baseline over method of `seconds(sample, trace)`, round by round; rounds with a 0 are left out."""
    pairs = zip(baseline.samples, runs.samples, strict=True)
    times = [(seconds(a, baseline.trace), seconds(b, runs.trace)) for a, b in pairs]
    return [a / b for a, b in times if a and b]


def ms_per_token(sample, trace) -> float:
    """Milliseconds between two output tokens of a row: N tokens have N - 1 such spans in the decode time."""
    return 1e3 * sample.decode_s / trace.steps


def _times(samples, trace) -> dict:
    decoded = trace.tokens - trace.rows  # the first token of each row belongs to the prefill
    steady = [s for s in samples if trace.steps and s.decode_s]
    return {
        "decode_ms_per_token": value([ms_per_token(s, trace) for s in steady]),
        "tokens_per_s": value([decoded / s.decode_s for s in steady]),
        "prefill_ms": value([1e3 * s.prefill_s for s in samples]),
        "time_to_first_token_ms": value([1e3 * s.first_token_s for s in samples]),
    }


def _counted(trace, num_layers: int) -> dict:
    """Numbers that carry no noise, so no interval."""
    plain = {
        "speedup_layers": num_layers / trace.needed if trace.needed else None,
        "speedup_layers_batch": num_layers / trace.layers if trace.layers else None,
        "output_tokens_mean": trace.tokens / trace.rows,
        "kv_bytes_peak": trace.kv_bytes_peak,
        "kv_bytes_mean": trace.kv_bytes_mean,
    }
    return {name: {"value": number, "low": None, "high": None} for name, number in plain.items()}


def _shorter(trace, baseline) -> str | None:
    ours, theirs = (t.tokens / t.rows for t in (trace, baseline))
    if ours >= theirs * (1 - SHORTER):
        return None
    return f"shorter output: {ours:.1f} tokens against {theirs:.1f}, so the end-to-end speed-up is not one of speed"
