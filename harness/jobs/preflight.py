"""What can be wrong with a run, found before its first job: one clear error instead of a failure a job."""

from __future__ import annotations

from collections.abc import Iterable

from ..backbone.builtin import BUILTIN, CYCLES
from ..backbone.names import check_model_name
from ..errors import UsageError
from ..method import check_parameters, check_target
from ..registry import METHODS
from .identity import artefact_parameters, task_of
from .planning import QualityJob


def check_jobs(jobs: Iterable[QualityJob]) -> None:
    """Raise UsageError for unknown models and checkpoints, method parameters, targets, artefacts and missing data."""
    for job in jobs:
        check_model_name(job.spec.model)
        if job.checkpoint not in ("own", "base"):
            check_model_name(job.checkpoint)
        check_parameters(METHODS.load(job.method), dict(job.params))
        _check_looped(job)
        if job.target is not None and job.spec.model in BUILTIN:
            check_target(job.target, BUILTIN[job.spec.model][1])
        task_of(job.spec.task, job.data).load(job.spec.split)
        if job.tuned is not None and job.spec.model in BUILTIN:
            artefact_parameters(job, BUILTIN[job.spec.model][1])


def _check_looped(job: QualityJob) -> None:
    model = job.spec.model
    if getattr(METHODS.load(job.method), "pipelined", False) and model in BUILTIN and model not in CYCLES:
        raise UsageError(
            f"method {job.method!r} pipelines the cycles of a looped decoder, and model {model!r} is not looped; give "
            f"it a model of its own: {job.method}:model=looped-opt"
        )
