"""One timing group, start to finish: all methods of a task side by side, as their quality runs had them."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import UsageError
from ..measuring import measure_group
from ..method import Method
from ..recording import restore_method
from ..results.reading import load_run
from ..suite_entries import BASELINE
from .identity import group_id, run_id
from .planning import QualityJob, TimingJob
from .quality import Item, encode_split, padded
from .quality_run import QualityRun, model_facts
from .sharing import fit_together, timed_entry
from .workbench import Workbench


def _count(entries: Sequence) -> str:
    return "1 method alone" if len(entries) == 1 else f"{len(entries)} methods side by side"


def run_timing(job: TimingJob, bench: Workbench) -> None:
    """Measure the members side by side; failed ones, and those that decide in hindsight, are left out."""
    missing = [run_id(member) for member in job.members if not bench.store.is_complete(run_id(member))]
    members = [_recorded(member, bench) for member in job.members if run_id(member) not in missing]
    members = [(run, facts, method) for run, facts, method in members if method.kv_policy != "oracle"]
    if not any(run.job.method == BASELINE for run, *_ in members):
        raise UsageError(f"timing needs a finished run of {BASELINE!r} to compare with")
    members.sort(key=lambda member: member[0].job.method != BASELINE)  # the baseline comes first
    spec, first = job.members[0].spec, members[0][0]
    items = _timing_items(first, job.batch_size)
    shared = None if fit_together([run for run, *_ in members]) else first
    if shared is not None:
        bench.say(f"{job.label}: the checkpoints do not fit in memory together; timed on those of {BASELINE}")
    entries = [timed_entry(run, method, shared, items) for run, _, method in members]
    bench.say(f"{job.label}: {_count(entries)}, up to {spec.timing.seconds:g} s")
    measured = measure_group(
        entries,
        padded(items, first.backbone.fill_id),
        spec.timing.new_tokens,
        repeats=spec.timing.repeats,
        seconds=spec.timing.seconds,
    )
    for flag in sorted({flag for entry in measured["methods"].values() for flag in entry["flags"]}):
        bench.say(f"{job.label}: {flag}")
    measured["methods"] = [
        {"method": facts, "checkpoint": run.job.checkpoint, "run_id": run.id, **measured["methods"][run.id]}
        for run, facts, _ in members
    ]
    document = {
        **measured,
        "suite": first.job.suite,
        "task": first.task.label,
        "source": first.task.source,
        "model": model_facts(first.backbone, spec.model, first.weights),
        "decoding": "greedy",
        "seed": first.job.seed,
        "shared_weights": shared is not None,
        "missing": missing,
    }
    bench.store.write_timing(group_id(job), document)


def _recorded(job: QualityJob, bench: Workbench) -> tuple[QualityRun, dict, Method]:
    """A finished run, its method as recorded, and that method: a threshold is as its calibration left it."""
    run = QualityRun(job, bench)
    facts = load_run(bench.store.root / "runs" / run.id).config["method"]
    return run, facts, restore_method(job.method, run.num_layers, facts["params"])


def _timing_items(run: QualityRun, batch_size: int) -> list[Item]:
    """Test examples with prompts of the middle lengths; short test sets are repeated to fill the batch."""
    items = encode_split(
        run.task, run.job.spec.split, run.job.spec.limit, run.backbone.require_tokenizer(), run.max_prompt_tokens
    )
    middle = max(0, (len(items) - batch_size) // 2)
    return [items[(middle + i) % len(items)] for i in range(batch_size)]
