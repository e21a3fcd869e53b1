"""The floor of a task: its trivial outputs, scored like any method's."""

from __future__ import annotations

from ..task import comparison
from .identity import floor_id, task_of
from .planning import FloorJob
from .quality import score_floor
from .workbench import Workbench


def run_floor(job: FloorJob, bench: Workbench) -> None:
    """Record and score a task's trivial outputs."""
    task, spec = task_of(job.spec.task, job.data), job.spec
    outputs = task.floor_outputs(spec.split)[job.name][: spec.limit]
    examples = list(task.load(spec.split))[: spec.limit]
    config = {
        "suite": job.suite,
        "task": task.label,
        "split": spec.split,
        "source": task.source,
        "data_hash": task.data_hash(spec.split),
        "n": len(examples),
        "limit": spec.limit,
        "model": None,
        "method": {"name": "floor", "variant": job.name, "params": {}, "target": None},
        "metrics": [*task.metrics, *spec.further_metrics(task.metrics)],
        "language": task.language,
        "comparable": comparison(task),
    }
    run = bench.store.open_run(floor_id(job), config)
    if not run.done_ids():
        run.append([{"id": e.id, "batch": 0, "output": text} for e, text in zip(examples, outputs, strict=True)])
    score_floor(run, task, examples)
