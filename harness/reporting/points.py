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
DATA = ("task", "split", "source", "data_hash", "n")
LIKE = (*DATA, "limit", "max_prompt_tokens", "max_new_tokens", "batch_size", "dtype", "device", "threads", "attention",
        "decoding")  # fmt: skip
MODELLED = ("predicted_ms_per_token", "overhead_ms", "speedup_predicted", "speedup_bound")
NO_MODEL = "the cost model holds for steps of one pass and one position, not for methods that guess"


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
    tuned = property(lambda self: self.config["method"].get("tuned") or {})  # the artefact behind its parameters
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

    def by_seed(self, name: str, bound: str = "value") -> dict[int | None, float]:
        """A score, or one of its bounds, of each training seed; a control's several random choices are averaged."""
        found: dict[int | None, list[float]] = defaultdict(list)
        for run in self.runs:
            entry = (run.scores.get("values") or {}).get(name)
            number = getattr(_value(entry), bound)
            if number is not None:
                found[run.config.get("seed")].append(number)
        return {seed: sum(numbers) / len(numbers) for seed, numbers in found.items()}

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
    named: dict[tuple, list[dict]] = defaultdict(list)
    for run in runs:
        if run.folder.name in jobs:
            named[_place(run.config)].append(run.config["method"])
    return [
        run
        for run in runs
        if run.folder.name in jobs
        or not any(_same_choice(run.config["method"], newer) for newer in named[_place(run.config)])
    ]


def _place(config: dict) -> tuple:
    """Everything but the method's parameters in which a run must equal the one that replaces it."""
    method, model = config["method"], config.get("model") or {}
    names = (model.get("name"), method["name"], method.get("target"))
    return (*(str(config.get(k)) for k in (*LIKE, "checkpoint", "seed")), *map(str, names))


def _same_choice(one: dict, other: dict) -> bool:
    """Whether two runs of a method at one target were asked for alike; what was searched or derived may differ.

    Runs from before parameters were recorded as given are told apart by words alone, without a target by everything.
    """
    if one.get("given") is not None and other.get("given") is not None:
        return given(one) == given(other)
    return _recorded(one) == _recorded(other)


def given(method: dict) -> tuple[str, str]:
    """What a user asked of a method: its parameters as given, and what an artefact was to choose the others for."""
    tuned = {k: v for k, v in (method.get("tuned") or {}).items() if k not in ("file", "sha256")}
    return repr(sorted(method["given"].items())), repr(sorted(tuned.items()))


def _recorded(method: dict) -> str:
    params = (method.get("params") or {}).items()
    return repr(sorted((k, v) for k, v in params if method.get("target") is None or isinstance(v, (str, bool))))


def _timings_by_run(groups: Iterable[dict]) -> dict[str, list[Timing]]:
    found = defaultdict(list)
    for group in groups:
        setting = {key: group.get(key) for key in TIMING_SETTING} | {"machine": machine(group)}
        for entry in group["methods"]:
            by_step = tuple(entry.get("kv_bytes_by_step") or ())
            values = _values(entry["values"])
            if "acceptance_rate" in values:  # older files have numbers here that mean nothing
                values |= {name: Value(note=NO_MODEL) for name in MODELLED if name in values}
            found[entry.get("run_id")].append(Timing(setting, values, by_step))
    return found


def machine(group: dict) -> str | None:
    """The model of the processor that a timing group ran on: the GPU's, or the CPU's; None if it was not recorded."""
    facts = group.get("environment") or {}
    gpus = facts.get("gpus") or []
    return gpus[0] if gpus and group.get("device") == "cuda" else facts.get("cpu")


def _values(values: dict) -> dict[str, Value]:
    return {metric: _value(entry) for metric, entry in values.items()}


def _value(entry: object) -> Value:
    if not isinstance(entry, dict):
        return Value(entry)
    return Value(**{key: entry.get(key) for key in ("value", "low", "high", "note", "flag")})
