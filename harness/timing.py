"""One timing group, start to finish: all methods of a task side by side, as their quality runs had them."""

from __future__ import annotations

from .errors import UsageError
from .identity import group_id, run_id
from .jobs import TimingJob
from .measuring import Entry, measure_group
from .method import load_method
from .quality import encode_split, padded
from .results.files import read_json
from .runner import QualityRun, Workbench, model_facts

BASELINE = "full"  # the method every ratio is formed against


def run_timing(job: TimingJob, bench: Workbench) -> None:
    """Measure the members side by side, as they were when their quality runs decoded; failed ones are left out."""
    missing = [run_id(member) for member in job.members if not bench.store.is_complete(run_id(member))]
    runs = [QualityRun(member, bench) for member in job.members if run_id(member) not in missing]
    if not any(run.job.method == BASELINE for run in runs):
        raise UsageError(f"timing needs a finished run of {BASELINE!r} to compare with")
    runs.sort(key=lambda run: run.job.method != BASELINE)  # the baseline comes first
    recorded = {run.id: read_json(bench.store.root / "runs" / run.id / "run.json")["method"] for run in runs}
    entries = [
        Entry(run.id, run.backbone, load_method(run.job.method, run.num_layers, **recorded[run.id]["params"]))
        for run in runs
    ]
    spec, first = job.members[0].spec, runs[0]
    bench.say(f"{job.label}: {len(entries)} methods side by side, up to {spec.timing.seconds:g} s")
    measured = measure_group(
        entries,
        _timing_prompts(first, job.batch_size),
        spec.timing.new_tokens,
        repeats=spec.timing.repeats,
        seconds=spec.timing.seconds,
    )
    measured["methods"] = [
        {"method": recorded[run.id], "checkpoint": run.job.checkpoint, "run_id": run.id, **measured["methods"][run.id]}
        for run in runs
    ]
    document = {
        **measured,
        "suite": first.job.suite,
        "task": first.task.label,
        "source": first.task.source,
        "model": model_facts(first.backbone, spec.model, first.weights),
        "decoding": "greedy",
        "seed": first.job.seed,
        "missing": missing,
    }
    bench.store.write_timing(group_id(job), document)


def _timing_prompts(run: QualityRun, batch_size: int):
    """Test prompts of the middle lengths; short test sets are repeated to fill the batch."""
    items = encode_split(
        run.task, run.job.spec.split, run.job.spec.limit, run.backbone.require_tokenizer(), run.max_prompt_tokens
    )
    middle = max(0, (len(items) - batch_size) // 2)
    chosen = [items[(middle + i) % len(items)] for i in range(batch_size)]
    return padded(chosen, run.backbone.pad_id)
