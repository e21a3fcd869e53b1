"""What can be wrong with a run, found before its first job: one clear error instead of a failure a job."""

from __future__ import annotations

import json
from collections.abc import Iterable

from ..backbone.builtin import BUILTIN, CYCLES
from ..backbone.names import check_model_name, model_path
from ..errors import SkipbenchError, UsageError
from ..method import Lengths, check_temperature
from ..method.parameters import check_class, check_parameters, check_target, load_method
from ..method.recording import record_parameters, record_value
from ..registry import METHODS
from ..scoring.languages import base_language
from ..scoring.names import METRICS as SCORES
from ..scoring.names import check_metrics
from ..scoring.words import check_script
from ..task import Task, examples_of
from .identity import artefact_parameters, task_of
from .planning import QualityJob

SHORTEST = Lengths(prompt=1, output=2)  # of training examples, which are not tokenised yet: fits any given horizon


def check_jobs(jobs: Iterable[QualityJob]) -> None:
    """Raise UsageError for unknown models and checkpoints, parameters, targets, artefacts, sampling, missing data."""
    for job in jobs:
        check_model_name(job.spec.model)
        _check_base(job)
        if job.checkpoint not in ("own", "base"):
            check_model_name(job.checkpoint)
        _check_parameters(job)
        _check_looped(job)
        _check_task(task_of(job.spec.task, job.data), job.spec.split)
        depth = known_depth(job.spec.model)
        if depth is not None:
            _check_method(job, depth)


def _check_parameters(job: QualityJob) -> None:
    cls = METHODS.load(job.method)
    check_class(cls)
    check_temperature(cls, job.spec.decoding.temperature)
    for name, value in check_parameters(cls, dict(job.params)).items():
        record_value(cls, name, value)


def _check_task(task: Task, split: str) -> None:
    """What would show only after decoding is asked first."""
    _check_examples(task, split)
    check_first_metric(task)
    base_language(task.language)


def check_first_metric(task: Task) -> None:
    """UsageError unless more of a task's first metric is better: by it settings are chosen and claims judged."""
    first = next(iter(check_metrics(task.metrics)), None)
    if first is not None and not SCORES[first].higher_is_better:
        better = next((name for name in task.metrics if SCORES[name].higher_is_better), "rougeL")
        raise UsageError(
            f"task {task.label!r} names {first!r} as its first metric, by which runs are ranked, but a higher "
            f"{first} is not better; put another first, such as {better!r}"
        )


def check_training_data(jobs: Iterable[QualityJob]) -> None:
    """Raise UsageError for training and validation examples that cannot serve. Takes time: for jobs that will run."""
    splits = {(job.spec.task, job.data, split) for job in jobs for split in (job.spec.training.split, "validation")}
    for name, data, split in sorted(splits, key=str):
        _check_examples(task_of(name, data), split)


def _check_examples(task: Task, split: str) -> None:
    references = [example.references for example in examples_of(task, split)]
    check_script(references, task.language)


def known_depth(model: str) -> int | None:
    """A model's number of layers, as far as it can be read without loading it. UsageError if a folder is no model."""
    if model in BUILTIN:
        return BUILTIN[model][1]
    path = model_path(model)
    if path is None or path.is_file():
        return None
    try:
        config = json.loads((path / "config.json").read_text(encoding="utf-8"))
        names = ("num_hidden_layers", "n_layer", "num_layers")
        return next((int(config[name]) for name in names if name in config), None)
    except (OSError, ValueError, TypeError) as error:
        raise UsageError(f"folder {model} holds no model of transformers: its config.json: {error}") from error


def _check_method(job: QualityJob, num_layers: int) -> None:
    """Whether the method can be built and recorded; what a plug-in raises beside UsageError is left to its job."""
    if job.target is not None:
        check_target(job.target, num_layers)
    target, params = job.target, dict(job.params)
    if job.tuned is not None:
        target, params = None, artefact_parameters(job, num_layers)
    try:
        record_parameters(load_method(job.method, num_layers, target, SHORTEST, **params))
    except SkipbenchError:
        raise
    except Exception:  # its job records the reason, and hurts no other
        return


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


def _check_looped(job: QualityJob) -> None:
    model = job.spec.model
    if getattr(METHODS.load(job.method), "pipelined", False) and model in BUILTIN and model not in CYCLES:
        raise UsageError(
            f"method {job.method!r} pipelines the cycles of a looped decoder, and model {model!r} is not looped; give "
            f"it a model of its own: {job.method}:model=looped-opt"
        )
