"""Points sorted into panels: what may be compared with what, and what each curve is called."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from .flagging import flagged
from .points import DATA, FLOOR, LIKE, REFERENCE, Point, Timing, Value, given, slug

HASH = 1 + LIKE.index("data_hash")  # its place in a panel's key, which the model begins and the training ends
TITLED = ("model", "task", "source", "n")  # what a panel's title says anyhow


@dataclass(frozen=True)
class Panel:
    """What may be compared: points alike in model, training of own checkpoints and everything of LIKE.

    `slug` begins the names of the panel's files; `apart` says why other runs of the task are in other panels.
    """

    slug: str
    points: list[Point]
    apart: str = ""

    @property
    def config(self) -> dict:
        """A configuration that speaks for all: task, model, source, n."""
        return self.methods[0].config if self.methods else self.points[0].config

    @property
    def methods(self) -> list[Point]:
        """Every point that is not a floor."""
        return [p for p in self.points if p.method != FLOOR]

    @property
    def like(self) -> tuple:
        """What panels of two models must share before they are compared."""
        own = (trained(p.config) for p in self.methods if p.checkpoint == "own")
        return (*(self.config.get(key) for key in LIKE), next(own, ""))

    @property
    def main_metric(self) -> str:
        """The task's first metric."""
        return next(iter(self.config.get("metrics") or []), "loss")

    def reference(self, checkpoint: str = "own") -> Point | None:
        """`full` on the same kind of checkpoint, else any `full`."""
        full = [p for p in self.points if p.method == REFERENCE]
        return next((p for p in full if p.checkpoint == checkpoint), full[0] if full else None)

    def floor(self, metric: str) -> tuple[float, str] | None:
        """The best trivial output's value and its name."""
        floors = [(p.get(metric).value, p.variant or FLOOR) for p in self.points if p.method == FLOOR]
        return max(((v, name) for v, name in floors if v is not None), default=None)

    def curves(self) -> dict[str, list[Point]]:
        """Points of each method in order of achieved speed, without reference and floor."""
        curves = defaultdict(list)
        for point in self.methods:
            if point.method != REFERENCE:
                curves[point.label].append(point)
        return {k: sorted(v, key=lambda p: p.get("speedup_layers").value or 0) for k, v in sorted(curves.items())}


def panels(points: Sequence[Point]) -> list[Panel]:
    """Points sorted into what may be compared, seeds merged and curves named. Floors join every panel of their task."""
    groups: dict[tuple, list[Point]] = defaultdict(list)
    for point in (p for p in points if p.method != FLOOR):
        groups[alike(point)].append(point)
    _join_untrained(groups)
    keys = sorted(groups, key=lambda key: (key[1], key))
    floors = [p for p in points if p.method == FLOOR]
    names, apart = _slugs(keys), _apart(keys)
    return [
        Panel(
            names[key],
            _titled(flagged(_named(merge_seeds(groups[key]))), apart[key]) + _floors(floors, groups[key][0].config),
            f"(not comparable: the runs of this panel are those with {apart[key]})" if apart[key] else "",
        )
        for key in keys
    ]


def alike(point: Point) -> tuple[str, ...]:
    """What two points must share to be compared: the model, LIKE, and how an own checkpoint was trained."""
    return tuple(str(part) for part in (point.model, *(point.config.get(k) for k in LIKE), trained(point.config)))


def trained(config: dict) -> str:
    """How an own checkpoint was trained, as words: steps, examples a step, learning rate, precision; "" for others.

    The objective is the method's own matter; what is not recorded is left out.
    """
    facts = config.get("training") or {}
    if config.get("checkpoint") != "own":
        return ""
    words = [f"{facts['steps']} steps"] if facts.get("steps") is not None else []
    recipe = facts.get("recipe")
    if isinstance(recipe, dict):
        names = ("batch_size", "learning_rate")
        words += [f"{name.replace('_', ' ')} {recipe[name]:g}" for name in names if name in recipe]
    return ", ".join([*words, *filter(None, [facts.get("precision")])])


def _join_untrained(groups: dict[tuple, list[Point]]) -> None:
    """Runs of checkpoints that were not trained here stand in every panel of runs that were."""
    for key in [key for key in groups if not key[-1]]:
        untrained = [point for point in groups[key] if point.checkpoint != "own"]
        homes = [other for other in groups if other[:-1] == key[:-1] and other[-1]]
        for home in homes:
            groups[home] += untrained
        if homes and len(untrained) == len(groups[key]):
            del groups[key]


def _apart(keys: Sequence[tuple]) -> dict[tuple, str]:
    """For each panel, in words, what tells it from others of the same title; "" where the title says all."""
    names = (*("model", *LIKE), "training")
    found = {}
    for key in keys:
        title = [part for name, part in zip(names, key, strict=True) if name in TITLED]
        same = [k for k in keys if [part for name, part in zip(names, k, strict=True) if name in TITLED] == title]
        places = [i for i in range(len(key)) if len({k[i] for k in same}) > 1]
        found[key] = "; ".join(
            f"{names[i].replace('_', ' ')} {key[i][:12] if i == HASH else key[i] or 'not recorded'}" for i in places
        )
    return found


def _titled(points: Sequence[Point], apart: str) -> list[Point]:
    """The points, told apart in titles from those of other panels."""
    return [replace(p, config={**p.config, "apart": apart}) if apart else p for p in points]


def _slugs(keys: Sequence[tuple]) -> dict[tuple, str]:
    """A file name for each panel: task, model, stand-in; whatever else differs only where it must."""
    short = {key: "_".join([key[1], key[0], *(["stand-in"] if "stand-in" in key else [])]) for key in keys}
    names = {}
    for key in keys:
        same = [other for other in keys if short[other] == short[key]]
        telling = [
            key[i][:12] if i == HASH else key[i] for i in range(len(key)) if len({other[i] for other in same}) > 1
        ]
        names[key] = slug("_".join([short[key], *telling]))
    return names


def _floors(floors: Sequence[Point], config: dict) -> list[Point]:
    return [p for p in floors if all(p.config.get(k) == config.get(k) for k in DATA)]


def merge_seeds(points: Sequence[Point]) -> list[Point]:
    """Points that differ in the seed alone become one: mean of values, the range over seeds beside, no interval.

    An interval over examples would need the resamples of all of them, which are not recorded.

    Where two have the same seeds, something else differs, so none of them are merged.
    """
    groups: dict[tuple, list[Point]] = defaultdict(list)
    for point in points:
        groups[(point.method, point.target, point.checkpoint, *_asked(point))].append(point)
    return [point for group in groups.values() for point in ([_merged(group)] if _seeds_differ(group) else group)]


def _asked(point: Point) -> tuple[str, str]:
    """What was asked of a point's method but its random choices: what was searched is found anew for each seed."""
    method = point.config["method"]
    asked = point.params if method.get("given") is None else method["given"]
    searched = {"threshold"} if point.target is not None else set()
    kept = {k: v for k, v in asked.items() if k not in seed_parameters(asked).keys() | searched}
    return given(method | {"given": kept})


def seed_parameters(params: dict) -> dict:
    """Those of a method's parameters that choose at random."""
    return {k: v for k, v in params.items() if k.endswith("seed")}


def _seeds_differ(group: Sequence[Point]) -> bool:
    """Whether there are several points and each has seeds of its own."""
    seeds = {repr((p.seed, sorted(seed_parameters(p.params).items()))) for p in group}
    return len(group) > 1 and len(seeds) == len(group)


def _merged(group: Sequence[Point]) -> Point:
    values = {m: _mean([p.values[m] for p in group if m in p.values]) for m in group[0].values}
    timings = [_mean_timing(same) for same in _by_setting(group).values()]  # perhaps only one of them was timed
    runs = tuple(run for p in group for run in p.runs)
    return replace(group[0], values=values, timings=tuple(timings), runs=runs)


def _by_setting(group: Sequence[Point]) -> dict[str, list[Timing]]:
    found: dict[str, list[Timing]] = defaultdict(list)
    for timing in (t for p in group for t in p.timings):
        found[repr(sorted(timing.setting.items()))].append(timing)
    return found


def _mean_timing(same: Sequence[Timing]) -> Timing:
    first = same[0]
    return replace(first, values={m: _mean([t.values[m] for t in same if m in t.values]) for m in first.values})


def _mean(values: Sequence[Value]) -> Value:
    known = [v for v in values if v]
    if len(known) < 2:
        return known[0] if known else values[0]
    numbers = [v.value for v in known]
    flag = next((v.flag for v in known if v.flag), None)
    return Value(sum(numbers) / len(numbers), seeds=(min(numbers), max(numbers)), flag=flag)


def _named(points: Sequence[Point]) -> list[Point]:
    """Each point with the name of its curve: the method, plus whatever tells apart points at the same target."""
    groups: dict[tuple, list[Point]] = defaultdict(list)
    for point in points:
        groups[(point.method, point.checkpoint)].append(point)
    named = {}
    for (method, checkpoint), group in groups.items():
        keys = _telling_parameters(group)
        for point in group:
            parts = [method, *(f"{k}={point.params.get(k)}" for k in keys)]
            suffix = "" if checkpoint in ("own", "") else f" ({Path(checkpoint).name} checkpoint)"
            named[id(point)] = replace(point, label=" ".join(parts) + suffix)
    return [named[id(p)] for p in points]


def _telling_parameters(group: Sequence[Point]) -> list[str]:
    """Names of parameters that differ between points of one target; words before numbers, which follow from them."""
    by_target: dict[object, list[Point]] = defaultdict(list)
    for point in group:
        by_target[point.target].append(point)
    different = {
        key
        for same in by_target.values()
        for key in {k for p in same for k in p.params}
        if len({repr(p.params.get(key)) for p in same}) > 1
    }
    words = {k for k in different if any(isinstance(p.params.get(k), (str, bool)) for p in group)}
    return sorted(words or different)
