"""What other code has scored, scored anew from its records, without a forward pass."""

from __future__ import annotations

from ..results import Store
from ..results.encoding import seal
from ..results.files import replace_json
from ..results.reading import load_run
from .identity import job_id, task_of
from .planning import FloorJob, QualityJob
from .quality import output_values
from .scorer import scorer

OLDER = "by an older version, for here it is unavailable"


def rescore(job: QualityJob | FloorJob, store: Store) -> None:
    """Score a complete run's recorded outputs anew; what else its scores hold is kept.

    Raises SkipbenchError if a file of the run was altered.
    """
    run = load_run(store.root / "runs" / job_id(job))
    task, spec = task_of(job.spec.task, job.data), job.spec
    examples = list(task.load(spec.split))[: spec.limit]
    values, per_example = output_values(run, task, examples, getattr(job, "seed", 0))
    old = {key: value for key, value in run.scores.items() if key != "sha256"}
    singly = old.get("per_example") or {}
    for metric, value in values.items():
        before = old["values"].get(metric)
        if value["value"] is None and isinstance(before, dict) and before.get("value") is not None:
            values[metric] = {**before, "note": f"{(before.get('note') or '').removesuffix(f'; {OLDER}')}; {OLDER}"}
            per_example[metric] = singly.get(metric)
    new = {"values": {**old["values"], **values}, "per_example": {**singly, **per_example}, "scorer": scorer()}
    replace_json(run.folder / "scores.json", seal({**old, **new}))
