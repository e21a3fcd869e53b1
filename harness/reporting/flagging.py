"""Flags that show only where the points of a panel are seen together: other machines, shorter outputs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from .points import REFERENCE, Point, Timing, Value

CLOCK = ("speedup_wall", "speedup_total", "decode_ms_per_token", "tokens_per_s", "prefill_ms",
         "time_to_first_token_ms", "throughput_with_prompt", "predicted_ms_per_token", "overhead_ms",
         "speedup_predicted", "speedup_bound")  # fmt: skip
SHORTER = 0.9  # of the mean output length of full: what is clearly below says less


def flagged(points: Sequence[Point]) -> list[Point]:
    """The points of a panel, with flags at what must not be compared without a word."""
    return _shorter_outputs(_other_machines(points))


def _other_machines(points: Sequence[Point]) -> list[Point]:
    """The clock of all machines but the one most timings come from is flagged."""
    machines = Counter(t.setting.get("machine") for p in points for t in p.timings)
    if len(machines) < 2:
        return list(points)
    usual = machines.most_common(1)[0][0]

    def seen(timing: Timing) -> Timing:
        here = timing.setting.get("machine")
        flag = f"timed on another machine ({_named(here)}) than the rest ({_named(usual)}), so not comparable with it"
        return timing if here == usual else _with_flag(timing, CLOCK, flag)

    return [replace(p, timings=tuple(map(seen, p.timings))) for p in points]


def _named(machine: str | None) -> str:
    return machine or "not recorded"


def _shorter_outputs(points: Sequence[Point]) -> list[Point]:
    """Where a method's own outputs are clearly shorter than those of `full`, its end-to-end speed-up is flagged.

    Timing groups decode one forced length, so that nothing of this shows there.
    """
    return [_shorter(p, _length_of_full(points, p)) for p in points]


def _length_of_full(points: Sequence[Point], point: Point) -> float | None:
    full = [p for p in points if p.method == REFERENCE]
    full = [p for p in full if p.checkpoint == point.checkpoint] or full
    return full[0].values.get("output_tokens", Value()).value if full else None


def _shorter(point: Point, full: float | None) -> Point:
    length = point.values.get("output_tokens", Value())
    if not full or not length or point.method == REFERENCE or length.value >= SHORTER * full:
        return point
    flag = f"shorter output: {length.value:.1f} tokens a test output against {full:.1f} of full; what is gained by "
    flag += "saying less is no speed"
    timings = tuple(_with_flag(t, ("speedup_total",), flag) for t in point.timings)
    return replace(point, values=point.values | {"output_tokens": _flag(length, flag)}, timings=timings)


def _with_flag(timing: Timing, names: Sequence[str], flag: str) -> Timing:
    values = {name: _flag(v, flag) if name in names and v else v for name, v in timing.values.items()}
    return replace(timing, values=values)


def _flag(value: Value, flag: str) -> Value:
    return replace(value, flag="; ".join(filter(None, (flag, value.flag))))
