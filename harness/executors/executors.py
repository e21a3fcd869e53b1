"""Running all jobs of a suite: what is finished is passed over, what fails is recorded and hurts nothing else."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import JobsFailed, SkipbenchError, UsageError, unknown
from ..jobs.identity import job_id, task_of
from ..jobs.planning import Job, QualityJob, TimingJob, make_jobs
from ..jobs.preflight import check_devices, check_jobs, check_training_data
from ..jobs.scorer import is_scored
from ..notation import parse_target
from ..progress import Reporter
from ..results import Store
from ..results.reading import load_timing, suite_name
from ..suite import Suite, load_suite, suite_hash

RESULTS = Path(__file__).resolve().parents[2] / "results"
OUTER_COMMA = re.compile(r",(?![^\[{]*[\]}])")  # between names; one in brackets belongs to a parameter's value


def run_suite(
    name: str,
    out: str | Path | None = None,
    *,
    task: str | Sequence[str] | None = None,
    method: str | Sequence[str] | None = None,
    model: str | None = None,
    target: Any = None,
    limit: int | None = None,
    data: str | Path | None = None,
    plugin: str | Path | Sequence[str | Path] | None = None,
    executor: str = "local",
    fresh: bool = False,
    quiet: bool = True,
) -> Path:
    """Run a suite, going on where an earlier run of it stopped; returns the results folder.

    The arguments are the command line's options. Raises UsageError for anything that does not fit before a job runs,
    and JobsFailed at the end if a job failed: its reason stands in `failures/`, the others' results are kept. A file in
    the folder that is not as skipbench wrote it, even if it belongs to no job, is a SkipbenchError at the end.
    """
    suite = prepare(name, task=task, method=method, model=model, target=target, limit=limit, data=data, plugin=plugin)
    if executor not in EXECUTORS:
        raise unknown("executor", executor, EXECUTORS)
    jobs = make_jobs(suite)
    check_jobs(job for job in jobs if isinstance(job, QualityJob))
    root = results_folder(suite, out)
    with Reporter(quiet) as reporter, Store(root) as store:
        ids = {job_id(job): job for job in jobs}
        if fresh:
            for name_ in ids:
                store.forget(name_)
        if suite_name(root) not in (None, suite.name):
            reporter.say(f"{root} holds results of suite {suite_name(root)!r}; tables and plots will show both")
        store.write_suite(suite.name, suite_hash(suite), list(ids))
        failed = EXECUTORS[executor](ids, store, reporter)
        summary = _summary(failed, ids, root)
        try:
            _report(root)
        except SkipbenchError as error:
            raise SkipbenchError(f"{summary}. And there is no report: {error}" if summary else str(error)) from error
    if summary:
        raise JobsFailed(summary, root)
    return root


def _summary(failed: dict[str, str], jobs: dict[str, Job], root: Path) -> str | None:
    if not failed:
        return None
    name, reason = next(iter(failed.items()))
    kept = f"{len(failed)} of {len(jobs)} jobs failed; the others' results are kept in {root}"
    return f"{kept}. First: {jobs[name].label}: {reason}"


def results_folder(suite: Suite, out: str | Path | None) -> Path:
    """Where a suite's results are kept; UsageError for a name that cannot be a folder."""
    root = Path(out) if out is not None else RESULTS / suite.name
    taken = next((path for path in (root, *root.parents) if path.exists() and not path.is_dir()), None)
    if not str(out) or taken:
        raise UsageError(f"results need a folder: {taken} is a file" if taken else "--out is empty; name a folder")
    return root


def prepare(name: str, *, plugin=None, **overrides: Any) -> Suite:
    """The validated suite with the overrides of `run_suite`."""
    from ..registry import load_plugin

    task_of.cache_clear()  # data and plug-ins may have changed since an earlier run of this process
    for file in _listed(plugin):
        load_plugin(file)
    for option in ("model", "data"):  # an unset shell variable must not mean the default
        if overrides.get(option) == "":
            raise UsageError(f"--{option} is empty; leave it out or say which")
    names = {key: _split(overrides.get(key)) for key in ("task", "method")}
    targets = [parse_target(text) for text in _split(overrides.get("target"), "target") or []] or None
    return load_suite(name, {**overrides, **names, "target": targets})


def run_locally(jobs: dict[str, Job], store: Store, reporter: Reporter) -> dict[str, str]:
    """One job after the other in this process; returns the reasons of those that failed, by id."""
    bench, faults = None, set()
    pending, failed = _pending(jobs, store, reporter)
    for number, (name, job) in enumerate(jobs.items(), start=1):
        if name not in pending:
            continue
        reporter.say(f"[{number}/{len(jobs)}] {job.label}")
        if bench is None:  # torch is imported only when there is something to do
            from ..runner import attempt, workbench

            ahead = [job for job in pending.values() if isinstance(job, QualityJob)]
            check_training_data(ahead)
            check_devices(ahead)
            bench = workbench(store, reporter)
        reason = attempt(name, job, bench)
        if reason:
            failed[name] = reason
            reporter.say(f"  failed: {reason}")
        if _last_of_task(number, jobs) and (fault := _report_fault(store.root)) and fault not in faults:
            faults.add(fault)
            reporter.say(f"no report yet, but the jobs go on: {fault}")
    return failed


def run_on_ray(jobs: dict[str, Job], store: Store, reporter: Reporter) -> dict[str, str]:
    """Jobs side by side on the machines and GPUs of a Ray cluster."""
    from .cluster import run_on_ray

    pending, failed = _pending(jobs, store, reporter)
    check_training_data(job for job in pending.values() if isinstance(job, QualityJob))
    return {**failed, **run_on_ray(pending, store, reporter)}


EXECUTORS = {"local": run_locally, "ray": run_on_ray}


def _pending(jobs: dict[str, Job], store: Store, reporter: Reporter) -> tuple[dict[str, Job], dict[str, str]]:
    """Jobs that have something left to do, and why it is not known of others: a file that was altered, say."""
    pending, failed = {}, {}
    for name, job in jobs.items():
        try:
            if not is_done(name, job, store):
                pending[name] = job
        except SkipbenchError as error:
            failed[name] = str(error)
            reporter.say(f"{job.label}: {error}")
    return pending, failed


def is_done(name: str, job: Job, store: Store) -> bool:
    """Whether a job has nothing left to do; SkipbenchError for a file that cannot be trusted."""
    if not isinstance(job, TimingJob):
        return is_scored(name, store)
    if not store.has_timing(name):
        return False
    group = load_timing(store.root / "timing" / f"{name}.json")
    return not group.get("missing") and not group.get("failed")


def _report_fault(root: Path) -> str | None:
    """Bring the report up to date; why not, if that cannot be done, for the results of jobs do not depend on it."""
    try:
        _report(root)
    except Exception as error:  # the last report is made again when all jobs are through, and raises it
        return str(error) if isinstance(error, SkipbenchError) else f"{type(error).__name__}: {error}"
    return None


def _report(root: Path) -> None:
    from ..reporting import build_report

    build_report(root)


def _last_of_task(number: int, jobs: dict[str, Job]) -> bool:
    """Whether the next job belongs to another task, or there is none: time to show what came out."""
    rest = list(jobs.values())[number - 1 :]
    tasks = [(job.members[0] if isinstance(job, TimingJob) else job).spec.task for job in rest[:2]]
    return len(tasks) == 1 or tasks[0] != tasks[1]


def _listed(value: Any) -> list:
    if value is None:
        return []
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _split(value: Any, what: str = "name") -> list[str] | None:
    """Names or targets given as a list, or as one text with commas."""
    names = [name.strip() for text in _listed(value) for name in OUTER_COMMA.split(str(text)) if name.strip()]
    if value is not None and not names:
        raise UsageError(f"no {what} in {value!r}")
    return names or None
