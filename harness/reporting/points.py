"""What a report is made of: one `Point` a quality run, with the timings that belong to it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from ..results import RunFiles, load_runs, load_suite, load_timings

REFERENCE = "full"  # the method every ratio is formed against
FLOOR = "floor"  # runs of trivial outputs: lead-3, title, …
TIMING_SETTING = ("batch_size", "dtype", "device", "threads", "attention", "decoding")


@dataclass(frozen=True)
class Value:
    """A number with its 95 % interval; any part may be None. `note` says why a value is missing."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    note: str | None = None
    seeds: tuple[float, float] | None = None  # smallest and largest over seeds, if there are several

    def __bool__(self) -> bool:
        return self.value is not None


@dataclass(frozen=True)
class Timing:
    """What one timing group measured for one method. `setting`: batch_size, dtype, device, threads, …"""

    setting: dict
    values: dict[str, Value]

    @property
    def batch_size(self) -> int | None:
        """Rows decoded together."""
        return self.setting.get("batch_size")


@dataclass(frozen=True)
class Point:
    """One quality run: its configuration (run.json), its scores, its timings and where its records are."""

    config: dict
    values: dict[str, Value]
    timings: tuple[Timing, ...] = ()
    runs: tuple[RunFiles, ...] = ()
    label: str = ""  # the curve it belongs to

    method = property(lambda self: self.config["method"]["name"])
    target = property(lambda self: self.config["method"].get("target"))
    variant = property(lambda self: self.config["method"].get("variant") or "")
    params = property(lambda self: self.config["method"].get("params") or {})
    task = property(lambda self: self.config["task"])
    model = property(lambda self: (self.config.get("model") or {}).get("name") or "")
    num_layers = property(lambda self: (self.config.get("model") or {}).get("num_layers"))
    checkpoint = property(lambda self: self.config.get("checkpoint") or "")
    seed = property(lambda self: self.config.get("seed"))
    metrics = property(lambda self: list(self.config.get("metrics") or []))

    def get(self, metric: str, batch_size: int | None = None) -> Value:
        """A metric of the run, or of its timing at a batch size (None: the smallest that has it)."""
        if metric in self.values and batch_size is None:
            return self.values[metric]
        for timing in sorted(self.timings, key=lambda t: t.batch_size or 0):
            if metric in timing.values and batch_size in (None, timing.batch_size):
                return timing.values[metric]
        return self._layers_mean() if metric == "layers_mean" and self.num_layers else Value()

    def _layers_mean(self) -> Value:
        """Mean layers a decode step, which is what CALM's paper prints instead of a ratio."""
        speed = self.get("speedup_layers")
        return Value(*(x and self.num_layers / x for x in (speed.value, speed.high, speed.low)))

    def extra(self, name: str) -> object:
        """A further field of scores.json, of the first run; None if it is not there."""
        return self.runs[0].scores.get(name) if self.runs else None

    def records(self) -> list[dict]:
        """The records of the run (of all seeds)."""
        return [record for run in self.runs for record in run.records()]


@dataclass(frozen=True)
class Panel:
    """What may be compared in one figure: points of one task, split, source, size, model and dtype."""

    key: tuple
    points: list[Point] = field(default_factory=list)

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

    @property
    def slug(self) -> str:
        """The start of this panel's file names."""
        return slug("_".join(str(part) for part in self.key if part not in (None, "", "test")))


def slug(text: str) -> str:
    """A file name part: letters, digits, dots, dashes and underscores."""
    return "".join(c if c.isalnum() and c.isascii() or c in "._-" else "-" for c in text)


def load_points(root: Path) -> list[Point]:
    """Every finished run of a folder, repeats of one setting under another id left out, seeds still apart."""
    timings = _timings_by_run(load_timings(root))
    runs = [run for run in load_runs(root) if run.scores is not None]
    return [
        Point(run.config, _values(run.scores["values"]), tuple(timings[run.config["run_id"]]), (run,))
        for run in _current(runs, load_suite(root))
    ]


def _current(runs: list[RunFiles], suite: dict | None) -> list[RunFiles]:
    """One run a visible setting: where a changed method or model left two, the one the suite names counts."""
    jobs = set((suite or {}).get("jobs", []))
    chosen: dict[tuple, RunFiles] = {}
    for run in runs:
        key = _visible(run.config)
        if key not in chosen or (run.folder.name in jobs and chosen[key].folder.name not in jobs):
            chosen[key] = run
    return list(chosen.values())


def _visible(config: dict) -> tuple:
    method, model = config["method"], config.get("model") or {}
    keys = ("task", "split", "source", "n", "checkpoint", "batch_size", "dtype", "device", "threads", "attention")
    names = (model.get("name"), method["name"], method.get("variant"), method.get("target"))
    return (*(str(config.get(k)) for k in (*keys, "decoding", "seed")), *map(str, names))


def _timings_by_run(groups: Iterable[dict]) -> dict[str, list[Timing]]:
    found = defaultdict(list)
    for group in groups:
        setting = {key: group.get(key) for key in TIMING_SETTING}
        for entry in group["methods"]:
            found[entry.get("run_id")].append(Timing(setting, _values(entry["values"])))
    return found


def _values(values: dict) -> dict[str, Value]:
    return {metric: _value(entry) for metric, entry in values.items()}


def _value(entry: object) -> Value:
    if not isinstance(entry, dict):
        return Value(entry)
    return Value(*(entry.get(key) for key in ("value", "low", "high", "note")))


def panels(points: Sequence[Point]) -> list[Panel]:
    """Points sorted into what may be compared, seeds merged and curves named. Floors join every panel of their task."""
    groups: dict[tuple, list[Point]] = defaultdict(list)
    for point in (p for p in points if p.method != FLOOR):
        config = point.config
        groups[(point.task, config.get("split"), point.model, config.get("source"), config.get("n"))].append(point)
    floors = [p for p in points if p.method == FLOOR]
    return [
        Panel(key[:3] + ((key[3],) if key[3] == "stand-in" else ()), _named(merge_seeds(group)) + _floors(floors, key))
        for key, group in sorted(groups.items(), key=lambda item: tuple(map(str, item[0])))
    ]


def _floors(floors: Sequence[Point], key: tuple) -> list[Point]:
    same = ("task", "split", "source", "n")
    return [p for p in floors if tuple(p.config.get(k) for k in same) == (key[0], key[1], key[3], key[4])]


def merge_seeds(points: Sequence[Point]) -> list[Point]:
    """Points that differ in the seed alone become one: mean of values and bounds, the range over seeds beside."""
    groups: dict[tuple, list[Point]] = defaultdict(list)
    for point in points:
        follows = ("seed",) if point.target is None else ("seed", "threshold")  # a threshold found for a target
        params = {k: v for k, v in point.params.items() if k not in follows}
        groups[(point.method, point.target, point.checkpoint, repr(sorted(params.items())))].append(point)
    return [_merged(group) if len(group) > 1 else group[0] for group in groups.values()]


def _merged(group: Sequence[Point]) -> Point:
    values = {m: _mean([p.values[m] for p in group if m in p.values]) for m in group[0].values}
    timings = [
        replace(t, values={m: _mean([t2.values[m] for t2 in same if m in t2.values]) for m in t.values})
        for t in group[0].timings
        for same in [[t2 for p in group for t2 in p.timings if t2.setting == t.setting]]
    ]
    runs = tuple(run for p in group for run in p.runs)
    return replace(group[0], values=values, timings=tuple(timings), runs=runs)


def _mean(values: Sequence[Value]) -> Value:
    known = [v for v in values if v]
    if not known:
        return values[0]

    def average(pick: Callable[[Value], float | None]) -> float | None:
        parts = [pick(v) for v in known]
        return None if None in parts else sum(parts) / len(parts)

    numbers = [v.value for v in known]
    seeds = (min(numbers), max(numbers)) if len(known) > 1 else None
    return Value(average(lambda v: v.value), average(lambda v: v.low), average(lambda v: v.high), None, seeds)


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
