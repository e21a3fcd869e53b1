"""Points sorted into panels: what may be compared with what, and what each curve is called."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from .points import FLOOR, REFERENCE, Point, Timing, Value, slug

DATA = ("task", "split", "source", "data_hash", "n")
LIKE = (*DATA, "limit", "max_prompt_tokens", "max_new_tokens", "batch_size", "dtype", "device", "threads", "attention",
        "decoding")  # fmt: skip
HASH = 1 + LIKE.index("data_hash")  # its place in a panel's key, which the model begins


@dataclass(frozen=True)
class Panel:
    """What may be compared: points alike in model and everything of LIKE.

    `slug` begins the names of the panel's files.
    """

    slug: str
    points: list[Point]

    @property
    def config(self) -> dict:
        """A configuration that speaks for all: task, model, source, n."""
        return self.methods[0].config if self.methods else self.points[0].config

    @property
    def methods(self) -> list[Point]:
        """Every point that is not a floor."""
        return [p for p in self.points if p.method != FLOOR]

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
        groups[tuple(str(part) for part in (point.model, *(point.config.get(k) for k in LIKE)))].append(point)
    keys = sorted(groups, key=lambda key: (key[1], key))
    floors = [p for p in points if p.method == FLOOR]
    names = _slugs(keys)
    return [
        Panel(names[key], _named(merge_seeds(groups[key])) + _floors(floors, groups[key][0].config)) for key in keys
    ]


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
    """Points that differ in the seed alone become one: mean of values and bounds, the range over seeds beside.

    Where two have the same seeds, something else differs, so none of them are merged.
    """
    groups: dict[tuple, list[Point]] = defaultdict(list)
    for point in points:
        params = {k: v for k, v in point.params.items() if k not in seed_parameters(point.params)}
        if point.target is not None:
            params.pop("threshold", None)  # found anew for each seed
        groups[(point.method, point.target, point.checkpoint, repr(sorted(params.items())))].append(point)
    return [point for group in groups.values() for point in ([_merged(group)] if _seeds_differ(group) else group)]


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
    if not known:
        return values[0]

    def average(pick: Callable[[Value], float | None]) -> float | None:
        parts = [pick(v) for v in known]
        return None if None in parts else sum(parts) / len(parts)

    numbers = [v.value for v in known]
    seeds = (min(numbers), max(numbers)) if len(known) > 1 else None
    flag = next((v.flag for v in known if v.flag), None)
    return Value(average(lambda v: v.value), average(lambda v: v.low), average(lambda v: v.high), None, seeds, flag)


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
