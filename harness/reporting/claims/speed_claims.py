"""Comparisons of the clock between batch sizes and targets, of its spread and of memory. See comparisons.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..panels import Panel
from ..points import Point, Timing, Value
from .claim_list import Claim
from .judging import agree, from_interval
from .latency import NO_INTERVAL, Outcome, from_clock, least, same_setting, standard_error


def any_batch(claim: Claim, panel: Panel, point: Point, panels: Sequence[Panel]) -> Outcome:
    """The clock's speed-up at the largest batch as a change from batch 1."""
    return _batch_change(claim, point, 1.0)


def fades(claim: Claim, panel: Panel, point: Point, panels: Sequence[Panel]) -> Outcome:
    """How much of the batch-1 speed-up is gone at the largest batch."""
    return _batch_change(claim, point, -1.0)


def _batch_change(claim: Claim, point: Point, sign: float) -> Outcome:
    pairs = _first_and_last(point)
    if not pairs:
        return "the clock did not run at batch 1 and at a larger batch under equal conditions"
    return least([_change(claim, *pair, sign) for pair in pairs])


def _first_and_last(point: Point) -> list[tuple[Value, Value, int]]:
    """The clock's speed-up at batch 1 and at the largest batch, and that batch, for each setting that has both."""
    alike: dict[str, list[Timing]] = {}
    for timing in (t for t in point.timings if t.values.get("speedup_wall")):
        rest = sorted((k, str(v)) for k, v in timing.setting.items() if k != "batch_size")
        alike.setdefault(repr(rest), []).append(timing)
    ends = [(min(same, key=_size), max(same, key=_size)) for same in alike.values()]
    return [
        (first.values["speedup_wall"], last.values["speedup_wall"], _size(last))
        for first, last in ends
        if _size(first) == 1 < _size(last)
    ]


def _size(timing: Timing) -> int:
    return timing.batch_size or 0


def _change(claim: Claim, first: Value, last: Value, size: int, sign: float) -> Outcome:
    if flag := first.flag or last.flag:
        return flag
    errors = [standard_error(first), standard_error(last)]
    if None in errors:
        return NO_INTERVAL
    ratio = last.value / first.value
    error = ratio * float(np.hypot(errors[0] / first.value, errors[1] / last.value))
    return from_clock(sign * (ratio - 1), error, claim.margin, f"of the speed-up, batch {size}")


def less_kv(claim: Claim, panel: Panel, point: Point, panels: Sequence[Panel]) -> Outcome:
    """Bytes of keys and values at the peak, counted, as a share of `full`'s that is saved."""
    full = panel.reference()
    sizes = [t.batch_size for t in point.timings if t.values.get("kv_bytes_peak")]
    here = [(point.get("kv_bytes_peak", s).value, full.get("kv_bytes_peak", s).value) for s in sizes]
    here = [(a, b) for a, b in here if a is not None and b]
    if not here:
        return "KV memory was not measured"
    return from_interval(1 - here[0][0] / here[0][1], None, claim.margin, unit="of full's bytes")


def closer(claim: Claim, panel: Panel, point: Point, panels: Sequence[Panel]) -> Outcome:
    """How much nearer to the target the clock's speed-up is than the other method's, in shares of the target."""
    rivals = _at_target(claim, panel, point)
    if not rivals or not point.target:
        return f"there is no {claim.right} with the same target"
    pairs = [pair for rival in rivals if (pair := same_setting(point, rival, "speedup_wall"))]
    if not pairs:
        return "the clock did not run for both under equal conditions on one machine"
    return least([_nearer(claim, point.target, mine, other) for mine, other, _ in pairs])


def _at_target(claim: Claim, panel: Panel, point: Point) -> list[Point]:
    """Every form of the right side at the point's target."""
    wanted = (claim.right, point.target, "own")
    return [p for p in panel.methods if (p.method, p.target, p.checkpoint) == wanted]


def _nearer(claim: Claim, target: float, mine: Value, other: Value) -> Outcome:
    if flag := mine.flag or other.flag:
        return flag
    errors = [standard_error(mine), standard_error(other)]
    if None in errors:
        return NO_INTERVAL
    gain = abs(other.value / target - 1) - abs(mine.value / target - 1)
    return from_clock(gain, float(np.hypot(*errors)) / target, claim.margin, "of the target")


def steadier(claim: Claim, panel: Panel, point: Point, panels: Sequence[Panel]) -> Outcome:
    """The variance over examples of the layer speed-up, as a logarithm of the ratio (normal approximation)."""
    mine = point.get(SPREAD).value
    rivals = [rival for rival in _at_target(claim, panel, point) if rival.get(SPREAD)]
    if mine is None or not rivals:
        return f"there is no {claim.right} with the same target, or no spread of speeds"
    rival = min(rivals, key=lambda p: p.get(SPREAD).value)  # the steadiest form
    n, other = point.config.get("n") or 0, rival.get(SPREAD).value
    seeds = _seed_gains(point, rival)
    if not mine or not other:
        found = from_interval(other - mine, None, claim.margin, n, "in std of speed-up")
    else:
        found = from_interval(
            float(np.log(other / mine)), (1 / max(n - 1, 1)) ** 0.5, claim.margin, n, "log ratio of std"
        )
    return replace(found, seeds_agree=agree(seeds, claim.margin))


SPREAD = "speedup_layers_std"


def _seed_gains(point: Point, rival: Point) -> list[float]:
    """How much steadier each seed was than the same seed of the rival, or than its mean; empty unless several ran.

    Differences have the sign of the logarithms of the ratios, and need no value above 0.
    """
    mine, theirs = point.by_seed(SPREAD), rival.by_seed(SPREAD)
    seeds = sorted(mine.keys() | theirs.keys(), key=str)
    if len(seeds) < 2 or not mine or not theirs:
        return []
    mean = [float(np.mean([*side.values()])) for side in (mine, theirs)]
    return [theirs.get(seed, mean[1]) - mine.get(seed, mean[0]) for seed in seeds]
