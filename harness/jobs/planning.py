"""Jobs: what a suite asks for, one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from ..method.parameters import fixes_speed, takes_target
from ..registry import METHODS
from ..suite import MethodSpec, Suite, TaskSpec
from ..suite_entries import BASELINE
from ..task import load_task
from ..tuning.artefact import load_artefact


@dataclass(frozen=True)
class QualityJob:
    """One (task, model, checkpoint, method, target, seed): decode the split and score it."""

    suite: str
    data: str | None
    spec: TaskSpec
    method: str
    params: tuple[tuple[str, Any], ...]
    target: float | None
    checkpoint: str
    seed: int
    tuned: str | None = None  # an artefact of tune or calibrate
    transfer: bool = False

    @property
    def label(self) -> str:
        """For progress lines and messages."""
        speed = f" {self.target:g}x" if self.target is not None else ""
        params = "".join(f" {key}={value}" for key, value in self.params) + (" tuned" if self.tuned else "")
        rest = "" if self.checkpoint == "own" else f" ({self.checkpoint})"
        return f"{self.spec.task} {self.spec.model} {self.method}{params}{speed}{rest} seed {self.seed}"


@dataclass(frozen=True)
class FloorJob:
    """Trivial outputs of a task, scored like any others: its lead sentences, its most frequent reference, …"""

    suite: str
    data: str | None
    spec: TaskSpec
    name: str

    @property
    def label(self) -> str:
        return f"{self.spec.task} floor: {self.name}"

    @property
    def place(self) -> tuple:
        """What it depends on; no model is among it."""
        return self.spec.task, self.spec.split, self.spec.limit, self.name, *sorted(self.spec.metrics)


@dataclass(frozen=True)
class TimingJob:
    """All methods of a task side by side at one batch size."""

    members: tuple[QualityJob, ...]
    batch_size: int

    @property
    def label(self) -> str:
        return f"{self.members[0].spec.task} {self.members[0].spec.model} timing at batch {self.batch_size}"


Job = QualityJob | FloorJob | TimingJob


def make_jobs(suite: Suite) -> list[Job]:
    """All jobs of a suite, task by task: quality runs, floors, then the timing groups.

    Of runs that differ in a method's own seed alone the first is timed: the others run as many layers.
    """
    jobs: list[Job] = []
    floored: set[tuple] = set()
    for spec in suite.tasks:
        for seed, checkpoint in product(spec.seeds, spec.checkpoints):
            jobs.extend(_quality_jobs(suite, spec, seed, checkpoint))
        floors = [FloorJob(suite.name, suite.data, spec, name) for name in load_task(spec.task).floor_names]
        jobs.extend(floor for floor in floors if floor.place not in floored)  # two models of a task share them
        floored.update(floor.place for floor in floors)
        timed = tuple(_quality_jobs(suite, spec, spec.seeds[0], spec.checkpoints[0], all_seeds=False))
        jobs.extend(TimingJob(timed, size) for size in spec.timing.batch_sizes)
    return jobs


def _quality_jobs(
    suite: Suite, spec: TaskSpec, seed: int, checkpoint: str, all_seeds: bool = True
) -> Iterator[QualityJob]:
    common, seen = (suite.name, suite.data, spec), set()
    for method in _methods(spec):
        for seeds in list(_own_seeds(method))[: None if all_seeds else 1]:
            params = tuple(sorted({**method.params, **seeds}.items()))
            for target in _targets(spec, method):
                own = (method.name, params, target, checkpoint, seed, method.tuned, method.transfer)
                if repr(own) not in seen:  # what is named twice runs once
                    seen.add(repr(own))
                    yield QualityJob(*common, *own)


def _methods(spec: TaskSpec) -> list[MethodSpec]:
    """The task's methods; where something is timed the baseline is among them, asked for or not."""
    timed = bool(spec.timing.batch_sizes) and all(method.name != BASELINE for method in spec.methods)
    return [MethodSpec(name=BASELINE)] * timed + spec.methods


def _own_seeds(method: MethodSpec) -> Iterator[dict[str, int]]:
    """Every combination of the seeds of its parameters; one empty one if it names none."""
    return (dict(zip(method.seeds_of, values, strict=True)) for values in product(*method.seeds_of.values()))


def _targets(spec: TaskSpec, method: MethodSpec) -> Sequence[float | None]:
    """A method that takes no target, whose parameters fix its speed or whose artefact holds a guarantee runs once."""
    cls = METHODS.load(method.name)
    if not takes_target(cls) or fixes_speed(cls, method.params):
        return [None]
    if method.tuned is not None and not load_artefact(method.tuned).targets:
        return [None]
    return (spec.targets if method.targets is None else method.targets) or [None]
