"""What a report is made of: one `Point` a quality run, with its scores and the timings that belong to it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from ..results import RunFiles, load_runs, load_suite, load_timings
from ..results.reading import TIMING_SETTING

REFERENCE = "full"  # the method every ratio is formed against
FLOOR = "floor"  # runs of trivial outputs: lead-3, title, …


@dataclass(frozen=True)
class Value:
    """A number with its 95 % interval; any part may be None. `note` says why a value is missing, `flag` why one that is
    there should not be believed."""

    value: float | None = None
    low: float | None = None
    high: float | None = None
    note: str | None = None
    seeds: tuple[float, float] | None = None  # smallest and largest over seeds, if there are several
    flag: str | None = None

    def __bool__(self) -> bool:
        return self.value is not None


@dataclass(frozen=True)
class Timing:
    """What one timing group measured for one method. `setting`: batch_size, dtype, device, threads, …"""

    setting: dict
    values: dict[str, Value]
    kv_bytes_by_step: tuple[float, ...] = ()  # bytes of keys and values held after each decode step

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
    guesses = property(lambda self: "acceptance_rate" in self.values)  # speculative: layers do not describe it
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


def slug(text: str) -> str:
    """A file name part: letters, digits, dots, dashes and underscores."""
    return "".join(c if c.isalnum() and c.isascii() or c in "._-" else "-" for c in text)


def load_points(root: Path) -> list[Point]:
    """Every finished run of a folder that no newer one has replaced; seeds are still apart."""
    timings = _timings_by_run(load_timings(root))
    runs = [run for run in load_runs(root) if run.scores is not None]
    return [
        Point(run.config, _values(run.scores["values"]), tuple(timings[run.config["run_id"]]), (run,))
        for run in _current(runs, load_suite(root))
    ]


def _current(runs: list[RunFiles], suite: dict | None) -> list[RunFiles]:
    """Without what an older method, model or training left: runs that a run named by the suite has replaced."""
    jobs = set((suite or {}).get("jobs", []))
    named = {_visible(run.config) for run in runs if run.folder.name in jobs}
    return [run for run in runs if run.folder.name in jobs or _visible(run.config) not in named]


def _visible(config: dict) -> tuple:
    method, model = config["method"], config.get("model") or {}
    keys = ("task", "split", "source", "n", "checkpoint", "batch_size", "dtype", "device", "threads", "attention")
    names = (model.get("name"), method["name"], method.get("target"))
    words = sorted((k, v) for k, v in (method.get("params") or {}).items() if isinstance(v, (str, bool)))  # a variant
    return (*(str(config.get(k)) for k in (*keys, "decoding", "seed")), *map(str, names), repr(words))


def _timings_by_run(groups: Iterable[dict]) -> dict[str, list[Timing]]:
    found = defaultdict(list)
    for group in groups:
        setting = {key: group.get(key) for key in TIMING_SETTING}
        for entry in group["methods"]:
            by_step = tuple(entry.get("kv_bytes_by_step") or ())
            found[entry.get("run_id")].append(Timing(setting, _values(entry["values"]), by_step))
    return found


def _values(values: dict) -> dict[str, Value]:
    return {metric: _value(entry) for metric, entry in values.items()}


def _value(entry: object) -> Value:
    if not isinstance(entry, dict):
        return Value(entry)
    return Value(**{key: entry.get(key) for key in ("value", "low", "high", "note", "flag")})
