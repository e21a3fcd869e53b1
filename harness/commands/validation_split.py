"""What `tune`, `calibrate` and `diagnose` share: a suite's setting of one task, and its validation examples."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import UsageError
from ..executors import RESULTS, prepare
from ..jobs.planning import QualityJob
from ..jobs.preflight import known_depth
from ..jobs.quality import Item, batches_of, decode_batch, layer_statistics
from ..jobs.quality_run import QualityRun
from ..jobs.workbench import Workbench
from ..method.parameters import check_target
from ..progress import Reporter
from ..reporting.points import slug
from ..results.encoding import digest
from ..scoring import score
from ..suite import Suite, TaskSpec
from ..training import Checkpoints
from ..tuning.artefact import Artefact


def prepared_suite(task: str, suite: str, **overrides: Any) -> Suite:
    """A suite narrowed to one task on one model, the task's first; overrides as for `run`, empty ones count as none."""
    narrowed = prepare(suite, task=task, **{key: value or None for key, value in overrides.items()})
    if len({spec.task for spec in narrowed.tasks}) != 1:
        raise UsageError(f"give one task, not {task!r}")
    return narrowed.model_copy(update={"tasks": narrowed.tasks[:1]})


def prepared(method: str, task: str, suite: str, **overrides: Any) -> tuple[str | None, TaskSpec]:
    """(data, task entry) of a suite narrowed to one task and one method, written `name` or `name:key=value`."""
    narrowed = prepared_suite(task, suite, method=method, **overrides)
    spec = narrowed.tasks[0]
    if len(spec.methods) != 1:
        raise UsageError(f"give one method, not {method!r}")
    depth = known_depth(spec.model)
    for target in spec.targets if depth is not None else ():
        check_target(target, depth)
    return narrowed.data, spec


def bench_for(reporter: Reporter) -> Workbench:
    """A workbench that keeps checkpoints but no results."""
    return Workbench(None, Checkpoints(announce=reporter.training), reporter.start, reporter.say)


def job_for(data: str | None, spec: TaskSpec, target: float | None, checkpoint: str) -> QualityJob:
    """The quality job of a task entry's first method, on the validation split."""
    method = spec.methods[0]
    spec = spec.model_copy(update={"split": "validation"})
    params = tuple(sorted(method.params.items()))
    return QualityJob("", data, spec, method.name, params, target, checkpoint, spec.seeds[0])


class Decoded(NamedTuple):
    """Outputs of `items` in their order, and the layer-count speed-up they were decoded at."""

    outputs: list[str]
    speedup: float


def decode_items(run: QualityRun, method, items: Sequence[Item]) -> Decoded:
    """Decode greedily with a run's model."""
    options = run.job.spec.decoding.model_copy(update={"temperature": 0.0})
    records = []
    for number, batch in enumerate(batches_of(items, options.batch_size)):
        records += decode_batch(run.backbone, method, batch, number, options, run.max_new_tokens, run.job.seed)
    statistics = layer_statistics(records, run.num_layers)
    return Decoded([record["output"] for record in records], statistics["speedup_layers"].value)


def score_items(run: QualityRun, outputs: list[str], items: Sequence[Item], metric: str, per_example: bool = False):
    """A metric of outputs against their examples' references."""
    references = [item.example.references for item in items]
    return score(outputs, references, [metric], run.task.language, per_example)[metric]


def make_artefact(kind: str, run: QualityRun, entries: Sequence[dict]) -> Artefact:
    """The artefact of what was chosen with a run's model on its task's validation split."""
    backbone, job = run.backbone, run.job
    model = {
        "name": job.spec.model,
        "family": backbone.family,
        "num_layers": backbone.num_layers,
        "weights": run.weights,
    }
    task = run.task
    return Artefact(
        kind, job.method, dict(job.params), model, job.checkpoint, task.label, task.source,
        task.data_hash("validation"), job.seed, tuple(entries),
    )  # fmt: skip


def default_path(artefact: Artefact, *words: str) -> Path:
    """Where an artefact is kept unless told otherwise; what it was made for tells names apart."""
    fields = dataclasses.asdict(artefact)
    made_for = digest({key: fields[key] for key in ("parameters", "model", "checkpoint", "data_hash", "seed")})[:8]
    names = (artefact.method, *words, artefact.task, artefact.model["name"], made_for)
    return RESULTS / artefact.kind / f"{slug('-'.join(names))}.json"
