"""Jobs: what a suite asks for, one by one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from .method import fixes_speed, takes_target
from .registry import METHODS
from .suite import MethodSpec, Suite, TaskSpec
from .task import load_task


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

    @property
    def label(self) -> str:
        """For progress lines and messages."""
        speed = f" {self.target:g}x" if self.target is not None else ""
        params = "".join(f" {key}={value}" for key, value in self.params)
        rest = "" if self.checkpoint == "own" else f" ({self.checkpoint})"
        return f"{self.spec.task} {self.method}{params}{speed}{rest} seed {self.seed}"


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


@dataclass(frozen=True)
class TimingJob:
    """All methods of a task side by side at one batch size."""

    members: tuple[QualityJob, ...]
    batch_size: int

    @property
    def label(self) -> str:
        return f"{self.members[0].spec.task} timing at batch {self.batch_size}"


Job = QualityJob | FloorJob | TimingJob


def make_jobs(suite: Suite) -> list[Job]:
    """All jobs of a suite, task by task: quality runs, floors, then the timing groups."""
    jobs: list[Job] = []
    for spec in suite.tasks:
        quality = [job for seed in spec.seeds for job in _quality_jobs(suite, spec, seed)]
        jobs.extend(quality)
        jobs.extend(FloorJob(suite.name, suite.data, spec, name) for name in load_task(spec.task).floor_names)
        first = tuple(job for job in quality if job.seed == spec.seeds[0] and job.checkpoint == spec.checkpoints[0])
        jobs.extend(TimingJob(first, size) for size in spec.timing.batch_sizes)
    return jobs


def describe(job: QualityJob) -> dict[str, Any]:
    """A job as JSON values, everything that could change its output included."""
    return {**asdict(job), "spec": job.spec.model_dump(mode="json", exclude={"methods", "timing", "targets"})}


def _quality_jobs(suite: Suite, spec: TaskSpec, seed: int) -> list[QualityJob]:
    return [
        QualityJob(suite.name, suite.data, spec, method.name, tuple(sorted(method.params.items())), target, ck, seed)
        for ck in spec.checkpoints
        for method in spec.methods
        for target in _targets(spec, method)
    ]


def _targets(spec: TaskSpec, method: MethodSpec) -> Sequence[float | None]:
    """A method that takes no target, or whose parameters fix its speed, runs once."""
    cls = METHODS.load(method.name)
    if not takes_target(cls) or fixes_speed(cls, method.params):
        return [None]
    return (spec.targets if method.targets is None else method.targets) or [None]
