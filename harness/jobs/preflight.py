"""What can be wrong with a run, found before its first job: one clear error instead of a failure a job."""

from __future__ import annotations

from collections.abc import Iterable

from ..backbone.builtin import BUILTIN
from ..backbone.names import check_model_name
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
        if job.target is not None and job.spec.model in BUILTIN:
            check_target(job.target, BUILTIN[job.spec.model][1])
        task_of(job.spec.task, job.data).load(job.spec.split)
        if job.tuned is not None and job.spec.model in BUILTIN:
            artefact_parameters(job, BUILTIN[job.spec.model][1])
