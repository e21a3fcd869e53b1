"""Ids of runs and timing groups: a readable name and a hash over everything that changes the output. No torch here."""

from __future__ import annotations

import hashlib
import re
from functools import lru_cache
from pathlib import Path

from ..method import EarlyExit
from ..method.recording import recorded
from ..registry import METHODS, TASKS, source_hash
from ..results.encoding import digest
from ..task import Task, load_task
from ..training import TRAINING_VERSION, model_identity
from ..tuning.artefact import check_use, load_artefact, parameters_for
from .planning import FloorJob, Job, QualityJob, TimingJob

# Raised by hand when the same job may decode other tokens or record other traces.
ENGINE_VERSION = 2
# Raised by hand when the search for a threshold may find another one.
CALIBRATION_VERSION = 2


@lru_cache(maxsize=32)
def task_of(name: str, data: str | None) -> Task:
    """The task of a job; its examples are read once a process."""
    return load_task(name, data)


def artefact_parameters(job: QualityJob, num_layers: int) -> dict:
    """The parameters a job's artefact gives its method; UsageError if it was made for something else."""
    artefact = load_artefact(job.tuned)
    task = task_of(job.spec.task, job.data)
    use = {"method": job.method, "model": job.spec.model, "num_layers": num_layers, "task": task}
    check_use(job.tuned, artefact, **use, transfer=job.transfer)
    return parameters_for(job.tuned, artefact, num_layers, job.target, dict(job.params))


def job_id(job: Job) -> str:
    """The id under which a job's results are kept."""
    makers = {QualityJob: run_id, FloorJob: floor_id, TimingJob: group_id}
    return makers[type(job)](job)


def run_id(job: QualityJob) -> str:
    """Changes with the model, the training recipe, the method, the data, the decoding, and the code of the plug-ins."""
    task = task_of(job.spec.task, job.data)
    content = {
        "versions": [ENGINE_VERSION, TRAINING_VERSION],
        "task": [task.label, source_hash(TASKS.load(task.name)), *_data_hashes(job, task)],
        "split": [job.spec.split, task.data_hash(job.spec.split), job.spec.limit],
        "model": [job.spec.model, model_identity(job.spec.model), _identity_of(job.checkpoint)],
        "checkpoint": [job.checkpoint, job.spec.training.model_dump(), job.seed],
        "method": [job.method, recorded(dict(job.params)), job.target, source_hash(METHODS.load(job.method))],
        "calibration": _calibration(job),
        "decoding": job.spec.decoding.model_dump(),
        "limits": [task.max_prompt_tokens, task.max_output_tokens],
    }
    if job.tuned is not None:
        content["tuned"] = hashlib.sha256(Path(job.tuned).read_bytes()).hexdigest()
    if further := job.spec.further_metrics(task.metrics):
        content["metrics"] = further
    speed = f"{job.target:g}x" if job.target is not None else ""
    names = (task.label, job.spec.model, job.method, speed, job.checkpoint, f"s{job.seed}")
    return f"{_slug(names)}-{digest(content)[:12]}"


def _data_hashes(job: QualityJob, task: Task) -> list[str]:
    return [task.data_hash(split) for split in (job.spec.training.split, "validation")]


def _identity_of(checkpoint: str) -> str | None:
    made_here = checkpoint in ("own", "base")  # of what the id holds
    return None if made_here else model_identity(checkpoint)


def searchable(job: QualityJob) -> bool:
    """Whether a search on validation examples can meet the job's target."""
    cls = METHODS.load(job.method)
    return job.target is not None and issubclass(cls, EarlyExit) and cls.search is not None


def _calibration(job: QualityJob) -> list[int] | None:
    return [CALIBRATION_VERSION, job.spec.calibration_examples] if searchable(job) else None


def floor_id(job: FloorJob) -> str:
    """Changes with the task's code and data."""
    task = task_of(job.spec.task, job.data)
    hashes = [task.data_hash("train"), task.data_hash(job.spec.split), source_hash(TASKS.load(task.name))]
    content = [ENGINE_VERSION, task.label, hashes, job.spec.split, job.spec.limit, job.name]
    content += job.spec.further_metrics(task.metrics)
    return f"{_slug((task.label, 'floor', job.name))}-{digest(content)[:12]}"


def group_id(job: TimingJob) -> str:
    """Changes with any member, the batch size and how it is timed."""
    spec = job.members[0].spec
    how = spec.timing.model_dump(exclude={"batch_sizes"})  # the others are groups of their own
    content = [[run_id(member) for member in job.members], job.batch_size, how]
    return f"{_slug((spec.task, spec.model, f'batch{job.batch_size}'))}-{digest(content)[:12]}"


def _slug(names) -> str:
    words = (re.sub(r"[^a-z0-9.]+", "-", str(name).lower()).strip("-") for name in names)
    return "-".join(word[-40:] for word in words if word)
