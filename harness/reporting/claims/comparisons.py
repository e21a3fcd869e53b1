"""The kinds of comparison that claims are made of. Each returns Evidence, or in words why there can be none.

All take (claim, panel, point, panels): `point` is the claim's left side at one target. Those of quality are here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..panels import Panel, seed_parameters
from ..points import Point
from ..tables.equal_speed import NEAR, at_speed
from ..words import MISSING, metric, target_title
from .claim_list import Claim
from .judging import Evidence, agree, from_interval, paired
from .latency import deeper, faster, least  # noqa: F401 - looked up by name
from .speed_claims import any_batch, closer, fades, less_kv, steadier  # noqa: F401 - looked up by name

Outcome = Evidence | str


def below_floor(panel: Panel, checkpoint: str = "own") -> str | None:
    """Why no claim is judged in a panel: `full` is missing, or a trivial output is as good."""
    full, name = panel.reference(checkpoint), panel.main_metric
    if full is None or full.checkpoint != checkpoint or not full.get(name):
        return " ".join(filter(None, [f"there is no full with {_kind(checkpoint)} checkpoint", panel.apart]))
    quality, floor = full.get(name), panel.floor(name)
    bounds = [quality.value if quality.low is None else quality.low, *full.by_seed(name, "low").values()]
    if floor is None:
        return "no trivial output was scored, so it is not known that full beats the floor"
    if min(bounds) <= floor[0]:
        return f"full ({quality.value:.1f}) does not clearly beat the floor ({floor[1]}: {floor[0]:.1f})"
    return None


def _kind(checkpoint: str) -> str:
    return "an own" if checkpoint == "own" else f"a {checkpoint}"


def keeps(claim: Claim, panel: Panel, point: Point, panels: Sequence[Panel]) -> Outcome:
    """Quality against `full`: what is lost stays within the margin."""
    low, high = claim.targets
    if point.target is None or not max(1, low) <= point.target <= high or point.target == 1:
        return f"the claim is about other targets than {target_title(point.target)}"
    speed = point.get("speedup_layers").value
    if speed is None or speed < (1 - NEAR) * point.target:
        return f"the target was missed: {MISSING if speed is None else f'{speed:.2f}x'} by layers"
    return _paired(claim, panel, point, [(panel.reference(claim.checkpoint), 1.0)])


def carries_over(claim: Claim, panel: Panel, point: Point, panels: Sequence[Panel]) -> Outcome:
    """As `keeps`, of settings that were tuned on E2E and on nothing else."""
    tuned = point.tuned
    if (tuned.get("kind"), tuned.get("task")) != ("tuned", "e2e"):
        return (
            f"not tested: the settings were not found on E2E; run `skipbench tune {claim.left} --task e2e` and name "
            f"its file in a suite: {{name: {claim.left}, tuned: FILE}}"
        )
    if tuned.get("source") != point.config.get("source"):
        return f"not tested: the settings were found on {tuned.get('source')} data of E2E; tune on the same source"
    return keeps(claim, panel, point, panels)


def beats(claim: Claim, panel: Panel, point: Point, panels: Sequence[Panel]) -> Outcome:
    """Quality against another method at the same achieved layer speed-up."""
    speed = point.get("speedup_layers").value
    rivals = [p for p in panel.methods if p.method == claim.right and p.checkpoint == claim.checkpoint]
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


def leads_untuned(claim: Claim, panel: Panel, point: Point, panels: Sequence[Panel]) -> Outcome:
    """As `beats`, where a quarter of the layers is skipped in the end."""
    if 4 * (point.params.get("skip_layers") or 0) != point.num_layers:
        return f"the claim is about a quarter of the layers skipped: skip_layers={point.num_layers // 4}"
    return beats(claim, panel, point, panels)


def slope_only(claim: Claim, panel: Panel, point: Point, panels: Sequence[Panel]) -> Outcome:
    """Minus the relative change of the layer speed-up from the shortest horizon, all else equal."""
    shortest = _shortest(panel, point)
    here, there = point.get("speedup_layers"), shortest.get("speedup_layers")
    if not here or not there or None in (here.low, here.high, there.low, there.high):
        return "the layer speed-ups have no interval over examples"
    ratio = here.value / there.value
    errors = [max(v.high - v.value, v.value - v.low) / NORMAL / v.value for v in (here, there)]
    error = ratio * float(np.hypot(*errors))
    return from_interval(-abs(ratio - 1), error, claim.margin, point.config.get("n") or 0, "of the layer speed-up")


def _shortest(panel: Panel, point: Point) -> Point:
    """The run of the same layers with the shortest horizon; it may be the point itself."""
    alike = [p for p in panel.methods if _but_horizon(p) == _but_horizon(point)]
    return min(alike, key=lambda p: p.params.get("max_length") or 0)


# Whether a claim is touched by a point at all, where that takes more than a run of its method.
TOUCHED = {"slope_only": lambda panel, point: _shortest(panel, point) is not point}
NORMAL = 1.96  # standard errors in half a 95 % interval


def _but_horizon(point: Point) -> tuple:
    params = {k: v for k, v in point.params.items() if k != "max_length"}
    return point.method, point.checkpoint, repr(sorted(params.items()))


def _choices(point: Point) -> int:
    """How many random choices a point is the mean of: distinct seeds of its method, not of its training."""
    return len({repr(seed_parameters(run.config["method"].get("params") or {})) for run in point.runs})


def _paired(claim: Claim, panel: Panel, point: Point, parts: Sequence[tuple[Point, float]]) -> Outcome:
    name, reference = panel.main_metric, panel.reference(claim.checkpoint)
    left, full = examples(point, name), examples(reference, name)
    rights = [(examples(p, name), weight) for p, weight in parts]
    if left is None or full is None or any(values is None for values, _ in rights):
        return f"scores.json holds no {metric(name).title} of single examples"
    if any(values.keys() != left.keys() for values, _ in [*rights, (full, 1)]):
        return "the runs did not decode the same examples"
    ids = sorted(left)
    right = sum(weight * np.array([values[i] for i in ids]) for values, weight in rights)
    margin = claim.margin * float(np.mean(list(full.values())))
    seeds = _seed_differences(point, parts, name)
    return paired(np.array([left[i] for i in ids]), right, margin, seeds, mean_title(reference, name))


def mean_title(point: Point, name: str) -> str:
    """What the mean of a metric's single values is: the metric itself or, of BLEU and its like, another number."""
    title = metric(name).title
    return title if all(_is_mean(run, name) for run in point.runs) else f"mean sentence {title}"


def _is_mean(run, name: str) -> bool:
    entry, values = (run.scores.get(key) or {} for key in ("values", "per_example"))
    whole, single = entry.get(name), values.get(name)
    whole = whole.get("value") if isinstance(whole, dict) else whole
    if whole is None or not single:
        return True
    return abs(float(np.mean(single)) - whole) <= 1e-6 * max(1.0, abs(whole))


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
    unit = f"of full's {mean_title(panel.reference(), panel.main_metric)}"
    found = from_interval(here[0] - there[0], error, claim.margin, here[2], unit)
    return replace(found, seeds_agree=agree(_seed_losses((panel, point), other), claim.margin))


def _seed_losses(here: tuple[Panel, Point], there: tuple[Panel, Point]) -> list[float]:
    """How much more each seed lost here than the same seed there, or than their mean; empty unless several ran."""
    mine, theirs = (_losses(*side) for side in (here, there))
    seeds = sorted(mine.keys() | theirs.keys(), key=str)
    if len(seeds) < 2 or not mine or not theirs:
        return []
    means = [float(np.mean([*side.values()])) for side in (mine, theirs)]
    return [mine.get(seed, means[0]) - theirs.get(seed, means[1]) for seed in seeds]


def _losses(panel: Panel, point: Point) -> dict[int, float]:
    """{seed: share of full's quality lost}, against the same seed of `full` or else its mean."""
    kept, full = (_seed_means(p, panel.main_metric) for p in (point, panel.reference()))
    mean = float(np.mean([*full.values()])) if full else 0.0
    return {seed: 1 - value / whole for seed, value in kept.items() if (whole := full.get(seed, mean))}


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
