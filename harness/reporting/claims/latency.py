"""Comparisons of latency: what SPEED claims (arXiv 2310.12072). See comparisons.py for what all kinds share."""

from __future__ import annotations

from collections.abc import Sequence

from ..panels import Panel
from ..points import REFERENCE, Point, Value
from .claim_list import Claim
from .judging import Evidence, from_interval

FREEDOM = 4  # degrees of freedom behind a clock's interval: at least five rounds
NO_INTERVAL = "the clock ran once, or for several seeds, so its numbers have no interval"

Outcome = Evidence | str


def standard_error(value: Value) -> float | None:
    """The standard error behind a clock's 95 % interval, of which the farther bound counts."""
    if value.low is None or value.high is None:
        return None
    from scipy.stats import t

    return max(value.high - value.value, value.value - value.low) / float(t.ppf(0.975, FREEDOM))


def from_clock(estimate: float, error: float, margin: float, unit: str) -> Evidence:
    """Evidence from a number made of medians over rounds, with its standard error."""
    return from_interval(estimate, error, margin, unit=unit, freedom=FREEDOM)


def least(outcomes: Sequence[Outcome]) -> Outcome:
    """The outcome against the rival that is hardest to beat; a reason against judging any of them comes first."""
    reasons = [outcome for outcome in outcomes if isinstance(outcome, str)]
    return reasons[0] if reasons else min(outcomes, key=lambda evidence: evidence.estimate)


def faster(claim: Claim, panel: Panel, point: Point, panels: Sequence[Panel]) -> Outcome:
    """The share of `full`'s time per token that is saved on the same decoder, at the smallest batch size timed."""
    wall, size = _smallest(point, "speedup_wall")
    if not wall:
        return "the clock did not run"
    if wall.flag:
        return wall.flag
    error = standard_error(wall)
    if error is None:
        return NO_INTERVAL
    return from_clock(1 - 1 / wall.value, error / wall.value**2, claim.margin, f"of the time, batch {size}")


def deeper(claim: Claim, panel: Panel, point: Point, panels: Sequence[Panel]) -> Outcome:
    """What is left of the time of one cycle of as many weights after a token's; below 0 if the token takes longer."""
    cycles = _cycles(point)
    if cycles < 2:
        return "the decoder has one cycle"
    shallow = [p for other in panels if panel.like == other.like for p in other.methods if _is_one_cycle(p, point)]
    if not shallow:
        return f"there is no full with one cycle of {point.num_layers // cycles} layers"
    pairs = [pair for one in shallow if (pair := same_setting(point, one, "decode_ms_per_token"))]
    if not pairs:
        return "the clock did not run for both under equal conditions on one machine"
    return least([_depth_cost(claim, *pair, f"of one cycle's time, {cycles} cycles") for pair in pairs])


def _depth_cost(claim: Claim, deep: Value, one: Value, size: int | None, unit: str) -> Outcome:
    if flag := deep.flag or one.flag:
        return flag
    errors = [standard_error(v) for v in (deep, one)]
    if None in errors:
        return NO_INTERVAL
    ratio = deep.value / one.value
    error = ratio * float((errors[0] / deep.value) ** 2 + (errors[1] / one.value) ** 2) ** 0.5
    return from_clock(1 - ratio, error, claim.margin, f"{unit}, batch {size}")


def same_setting(left: Point, right: Point, name: str) -> tuple[Value, Value, int | None] | None:
    """A timed metric of both under equal conditions and the batch size, the smallest at which both have it."""
    pairs = [
        (a.values[name], b.values[name], a.batch_size)
        for a in left.timings
        for b in right.timings
        if a.setting == b.setting and a.values.get(name) and b.values.get(name)
    ]
    return min(pairs, key=lambda pair: pair[2] or 0, default=None)


def _smallest(point: Point, name: str) -> tuple[Value, int | None]:
    """A timed metric at the smallest batch size that has it."""
    timed = [t for t in point.timings if t.values.get(name)]
    first = min(timed, key=lambda t: t.batch_size or 0, default=None)
    return (first.values[name], first.batch_size) if first else (Value(), None)


def _cycles(point: Point) -> int:
    return (point.config.get("model") or {}).get("num_cycles") or 0


def _is_one_cycle(other: Point, point: Point) -> bool:
    """Whether it is sequential decoding of one cycle of layers like the point's."""
    layers = point.num_layers // _cycles(point)
    family = [(p.config.get("model") or {}).get("family") for p in (other, point)]
    return (other.method, _cycles(other), other.num_layers) == (REFERENCE, 1, layers) and family[0] == family[1]
