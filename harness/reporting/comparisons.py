"""The kinds of comparison that claims are made of. Each returns Evidence, or in words why there can be none.

All take (claim, panel, point, panels): `point` is the claim's left side at one target.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .claim_list import Claim
from .equal_speed import NEAR, at_speed
from .judging import Evidence, from_interval, paired
from .latency import deeper, faster, from_clock, least, same_setting, standard_error  # noqa: F401 - looked up by name
from .panels import Panel, seed_parameters
from .points import Point, Timing, Value
from .words import MISSING, metric, target_title

Outcome = Evidence | str


def below_floor(panel: Panel) -> str | None:
    """Why no claim is judged in a panel: `full` is missing, or a trivial output is as good."""
    full, name = panel.reference(), panel.main_metric
    if full is None or full.checkpoint != "own" or not full.get(name):
        return "there is no full with an own checkpoint"
    quality, floor = full.get(name), panel.floor(name)
    bound = quality.value if quality.low is None else quality.low
    if floor is None:
        return "no trivial output was scored, so it is not known that full beats the floor"
    if bound <= floor[0]:
        return f"full ({quality.value:.1f}) does not clearly beat the floor ({floor[1]}: {floor[0]:.1f})"
    return None


def keeps(claim: Claim, panel: Panel, point: Point, panels: Sequence[Panel]) -> Outcome:
    """Quality against `full`: what is lost stays within the margin."""
    low, high = claim.targets
    if point.target is None or not max(1, low) <= point.target <= high or point.target == 1:
        return f"the claim is about other targets than {target_title(point.target)}"
    speed = point.get("speedup_layers").value
    if speed is None or speed < (1 - NEAR) * point.target:
        return f"the target was missed: {MISSING if speed is None else f'{speed:.2f}x'} by layers"
    return _paired(claim, panel, point, [(panel.reference(), 1.0)])


def beats(claim: Claim, panel: Panel, point: Point, panels: Sequence[Panel]) -> Outcome:
    """Quality against another method at the same achieved layer speed-up."""
    speed = point.get("speedup_layers").value
    rivals = [p for p in panel.methods if p.method == claim.right and p.checkpoint == "own"]
    if speed is None or not rivals:
        return f"there is no run of {claim.right} to compare with"
    enough = [p for p in rivals if _choices(p) >= claim.runs]
    if not enough:
        return f"the claim is against the mean of {claim.runs} runs of {claim.right}, and there are fewer"
    curves = {label: at_speed([p for p in enough if p.label == label], speed) for label in {p.label for p in enough}}
    outcomes = [_paired(claim, panel, point, parts) for _, parts in sorted(curves.items()) if parts]
    if not outcomes:
        return f"no speed of {claim.right} is comparable with {speed:.2f}x, not even between two runs"
    return least(outcomes)  # the claim must hold against the rival's best form


def _choices(point: Point) -> int:
    """How many random choices a point is the mean of: distinct seeds of its method, not of its training."""
    return len({repr(seed_parameters(run.config["method"].get("params") or {})) for run in point.runs})


def _paired(claim: Claim, panel: Panel, point: Point, parts: Sequence[tuple[Point, float]]) -> Outcome:
    name = panel.main_metric
    left, full = examples(point, name), examples(panel.reference(), name)
    rights = [(examples(p, name), weight) for p, weight in parts]
    if left is None or full is None or any(values is None for values, _ in rights):
        return f"scores.json holds no {metric(name).title} of single examples"
    if any(values.keys() != left.keys() for values, _ in [*rights, (full, 1)]):
        return "the runs did not decode the same examples"
    ids = sorted(left)
    right = sum(weight * np.array([values[i] for i in ids]) for values, weight in rights)
    margin = claim.margin * float(np.mean(list(full.values())))
    seeds = _seed_differences(point, parts, name)
    return paired(np.array([left[i] for i in ids]), right, margin, seeds, metric(name).title)


def examples(point: Point, name: str) -> dict[str, float] | None:
    """{example id: value}, the mean over the point's seeds; None if a run did not record them."""
    runs = [_run_examples(run, name) for run in point.runs]
    if not runs or None in runs or any(run.keys() != runs[0].keys() for run in runs):
        return None
    return {key: sum(run[key] for run in runs) / len(runs) for key in runs[0]}


def _run_examples(run, name: str) -> dict[str, float] | None:
    values = (run.scores.get("per_example") or {}).get(name)
    ids = [record["id"] for record in run.records()]
    if values is None or len(values) != len(ids) or None in values:
        return None
    return dict(zip(ids, values, strict=True))


def _seed_differences(point: Point, parts: Sequence[tuple[Point, float]], name: str) -> list[float]:
    """The mean difference of each of the point's seeds, from the same seed or else the other side's mean; empty unless
    there are several."""
    mine, sides = _seed_means(point, name), [_seed_means(p, name) for p, _ in parts]
    if len(mine) < 2:
        return []
    weights = [weight for _, weight in parts]
    return [
        mine[seed] - sum(w * side.get(seed, np.mean([*side.values()])) for w, side in zip(weights, sides, strict=True))
        for seed in sorted(mine)
    ]


def _seed_means(point: Point, name: str) -> dict[int, float]:
    """{seed: mean over examples}; a control's several random choices under one seed are averaged."""
    means: dict[int, list[float]] = {}
    for run in point.runs:
        values = _run_examples(run, name)
        if values is not None:
            means.setdefault(run.config.get("seed"), []).append(float(np.mean(list(values.values()))))
    return {seed: sum(found) / len(found) for seed, found in means.items()}


def loses_more(claim: Claim, panel: Panel, point: Point, panels: Sequence[Panel]) -> Outcome:
    """The share of quality lost here against the share lost on E2E at the same target and model."""
    other = _e2e_twin(panel, point, panels)
    if other is None:
        return "there is no E2E run of the same model, source and target"
    here, there = _loss_share(panel, point), _loss_share(*other)
    if here is None or there is None:
        return "scores.json holds no values of single examples"
    error = float(np.hypot(here[1], there[1]))
    return from_interval(here[0] - there[0], error, claim.margin, here[2], "of full's quality")


def _e2e_twin(panel: Panel, point: Point, panels: Sequence[Panel]) -> tuple[Panel, Point] | None:
    for other in (p for p in panels if p.config["task"] == "e2e" and below_floor(p) is None):
        for twin in other.methods:
            same = (twin.method, twin.target, twin.model, twin.checkpoint, twin.config.get("source"))
            if same == (point.method, point.target, point.model, "own", panel.config.get("source")):
                return other, twin
    return None


def _loss_share(panel: Panel, point: Point) -> tuple[float, float, int] | None:
    """(share of full's quality lost, its standard error, n), by the delta method over examples."""
    kept, full = examples(point, panel.main_metric), examples(panel.reference(), panel.main_metric)
    if kept is None or full is None or kept.keys() != full.keys() or len(kept) < 2:
        return None
    a, b = (np.array([side[i] for i in sorted(full)]) for side in (kept, full))
    ratio = a.mean() / b.mean()
    return 1 - ratio, float(np.std(a - ratio * b, ddof=1) / abs(b.mean()) / np.sqrt(len(a))), len(a)


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
        return "the clock ran once, so its numbers have no interval"
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
        return "the clock did not run for both in one timing group"
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
        return "the clock ran once, so its numbers have no interval"
    gain = abs(other.value / target - 1) - abs(mine.value / target - 1)
    return from_clock(gain, float(np.hypot(*errors)) / target, claim.margin, "of the target")


def steadier(claim: Claim, panel: Panel, point: Point, panels: Sequence[Panel]) -> Outcome:
    """The variance over examples of the layer speed-up, as a logarithm of the ratio (normal approximation)."""
    mine = point.get("speedup_layers_std").value
    others = [p.get("speedup_layers_std").value for p in _at_target(claim, panel, point)]
    others = [other for other in others if other is not None]
    if mine is None or not others:
        return f"there is no {claim.right} with the same target, or no spread of speeds"
    n, other = point.config.get("n") or 0, min(others)  # against the steadiest form
    if not mine or not other:
        return from_interval(other - mine, None, claim.margin, n, "in std of speed-up")
    return from_interval(float(np.log(other / mine)), (1 / max(n - 1, 1)) ** 0.5, claim.margin, n, "log ratio of std")
