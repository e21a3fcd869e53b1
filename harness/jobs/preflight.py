"""What can be wrong with a run, found before its first job: one clear error instead of a failure a job."""

from __future__ import annotations

from collections.abc import Iterable

from ..backbone.builtin import BUILTIN
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
        _check_base(job)
        if job.checkpoint not in ("own", "base"):
            check_model_name(job.checkpoint)
        check_parameters(METHODS.load(job.method), dict(job.params))
        if job.target is not None and job.spec.model in BUILTIN:
            check_target(job.target, BUILTIN[job.spec.model][1])
        task_of(job.spec.task, job.data).load(job.spec.split)
        if job.tuned is not None and job.spec.model in BUILTIN:
            artefact_parameters(job, BUILTIN[job.spec.model][1])


def _check_base(job: QualityJob) -> None:
    training = job.spec.training
    if job.spec.model in BUILTIN and not (training.base_steps and training.base_learning_rate):
        raise UsageError(
            f"model {job.spec.model!r} is made here, so suite {job.suite!r} must give training.base_steps and "
            "training.base_learning_rate"
        )


def check_devices(jobs: Iterable[QualityJob]) -> None:
    """Raise UsageError for a device this machine lacks; imports torch unless all jobs decode on the CPU."""
    for device in {job.spec.decoding.device for job in jobs} - {"cpu"}:
        import torch

        try:
            torch.empty(1, device=device)
        except (RuntimeError, AssertionError, NotImplementedError) as error:
            why = str(error).splitlines()[0]
            raise UsageError(f"this machine has no device {device!r} ({why}); set decoding.device") from error
