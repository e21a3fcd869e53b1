"""One timing group, start to finish: all methods of a task side by side, as their quality runs had them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from ..errors import SkipbenchError, UsageError
from ..measuring import Entry, EntryFailed, measure_group
from ..method import Method
from ..method.recording import restore_method
from ..results.reading import load_run
from ..suite_entries import BASELINE
from .identity import group_id, run_id
from .planning import QualityJob, TimingJob
from .quality import Item, encode_split, padded
from .quality_run import QualityRun, model_facts
from .sharing import fit_together, timed_entry
from .workbench import Workbench

Member = tuple[QualityRun, dict, Method]  # a finished run, its method as recorded, and that method
Failures = dict[str, str]  # the reason by run id


def run_timing(job: TimingJob, bench: Workbench) -> None:
    """Measure the members side by side; those whose run failed, and those that decide in hindsight, are left out.

    A member that fails while it is timed is left out too, but then SkipbenchError is raised once the others' times are
    recorded. Without the baseline's there are none.
    """
    missing = [run_id(member) for member in job.members if not bench.store.is_complete(run_id(member))]
    failed: Failures = {}
    members = _members([member for member in job.members if run_id(member) not in missing], bench, failed)
    spec, first = job.members[0].spec, members[0][0]
    items = _timing_items(first, job.batch_size)
    shared = None if fit_together([run for run, *_ in members]) else first
    if shared is not None:
        bench.say(f"{job.label}: the checkpoints do not fit in memory together; timed on those of {BASELINE}")
    entries = _entries(members, shared, items, failed)
    bench.say(f"{job.label}: {_count(entries)}, up to {spec.timing.seconds:g} s")
    limits = {"repeats": spec.timing.repeats, "seconds": spec.timing.seconds}
    prompts = padded(items, first.backbone.fill_id)
    measured = _measured(entries, lambda left: measure_group(left, prompts, spec.timing.new_tokens, **limits), failed)
    for flag in sorted({flag for entry in measured["methods"].values() for flag in entry["flags"]}):
        bench.say(f"{job.label}: {flag}")
    measured["methods"] = [
        {"method": facts, "checkpoint": run.job.checkpoint, "run_id": run.id, **measured["methods"][run.id]}
        for run, facts, _ in members
        if run.id not in failed
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
        "failed": failed,
    }
    bench.store.write_timing(group_id(job), document)
    if failed:
        raise SkipbenchError(f"{_count(entries, len(failed))} could not be timed: {'; '.join(failed.values())}")


def _members(jobs: Sequence[QualityJob], bench: Workbench, failed: Failures) -> list[Member]:
    """Finished runs with their methods, the baseline first: a threshold is as its calibration left it."""
    runs = [QualityRun(job, bench) for job in jobs]
    recorded = [(run, load_run(bench.store.root / "runs" / run.id).config["method"]) for run in runs]
    members = []
    for run, facts in sorted(recorded, key=lambda member: member[0].job.method != BASELINE):
        with _others_go_on(run, failed):
            members.append((run, facts, restore_method(run.job.method, run.num_layers, facts["params"])))
    if not members or members[0][0].job.method != BASELINE:
        raise UsageError(f"timing needs a finished run of {BASELINE!r} to compare with")
    return [member for member in members if member[2].kv_policy != "oracle"]


def _entries(members: Sequence[Member], shared: QualityRun | None, items: list[Item], failed: Failures) -> list[Entry]:
    entries = []
    for run, _, method in members:
        with _others_go_on(run, failed):
            entries.append(timed_entry(run, method, shared, items))
    return entries


@contextmanager
def _others_go_on(run: QualityRun, failed: Failures) -> Iterator[None]:
    """Note what a member raises; the baseline's failure is the group's."""
    try:
        yield
    except Exception as error:
        if run.job.method == BASELINE:
            raise
        failed[run.id] = f"{run.job.label}: {type(error).__name__}: {error}"


def _measured(entries: Sequence[Entry], measure: Callable[[Sequence[Entry]], dict], failed: Failures) -> dict:
    """What `measure` finds of the entries that can be timed; the others are noted."""
    left = list(entries)
    while True:
        try:
            return measure(left)
        except EntryFailed as failure:
            failed[failure.key] = str(failure)
            left = [entry for entry in left if entry.key != failure.key]


def _count(entries: Sequence, some: int | None = None) -> str:
    if some is not None:
        return f"{some} of {len(entries)} methods"
    return "1 method alone" if len(entries) == 1 else f"{len(entries)} methods side by side"


def _timing_items(run: QualityRun, batch_size: int) -> list[Item]:
    """Test examples with prompts of the middle lengths; short test sets are repeated to fill the batch."""
    items = encode_split(
        run.task, run.job.spec.split, run.job.spec.limit, run.backbone.require_tokenizer(), run.max_prompt_tokens
    )
    middle = max(0, (len(items) - batch_size) // 2)
    return [items[(middle + i) % len(items)] for i in range(batch_size)]
