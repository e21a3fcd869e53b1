"""Jobs side by side on a Ray cluster: quality runs in parallel, timing groups alone.

The machines share the checkout, the checkpoints, the data and the results folder. `RAY_ADDRESS` names a running
cluster; without it Ray starts on this machine.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from ..errors import UsageError
from ..jobs.planning import FloorJob, Job, QualityJob, TimingJob
from ..progress import Reporter
from ..registry import load_plugin, plugin_files
from ..results import Store


def run_on_ray(jobs: dict[str, Job], store: Store, reporter: Reporter) -> dict[str, str]:
    """Run jobs on the cluster; returns the reasons of those that failed, by id."""
    if not jobs:
        return {}
    ray = _started()
    work = ray.remote(max_retries=0)(_work)
    failed, ended = {}, 0
    try:
        for stage in stages(jobs):
            running = {
                work.options(**_share(ray, jobs[name])).remote(
                    str(store.root), list(plugin_files), name, jobs[name]
                ): name
                for name in stage
            }
            while running:
                (done, *_), _ = ray.wait(list(running))
                name, ended = running.pop(done), ended + 1
                reporter.say(f"[{ended}/{len(jobs)}] {jobs[name].label}")
                if reason := _outcome(ray, done, name, jobs[name], store):
                    failed[name] = reason
                    reporter.say(f"  failed: {reason}")
    finally:
        ray.shutdown()
    return failed


def stages(jobs: dict[str, Job]) -> Iterator[list[str]]:
    """Ids of jobs that may run at the same time: one of each base model first, for it trains what the others share."""
    first = {_base(job): name for name, job in reversed(jobs.items()) if isinstance(job, QualityJob)}
    rest = [name for name, job in jobs.items() if name not in first.values() and not isinstance(job, TimingJob)]
    timed = [name for name, job in jobs.items() if isinstance(job, TimingJob)]
    yield from filter(None, [list(first.values()), rest, *([name] for name in timed)])


def _base(job: QualityJob) -> str:
    spec = job.spec
    return f"{spec.task} {spec.model} {spec.training.model_dump_json()} {job.seed}"


def _started():
    try:
        import ray
    except ImportError:
        raise UsageError("the executor 'ray' needs Ray: pip install ray") from None
    # jobs that decode on the CPU may still train on a GPU, so Ray must not hide it from them
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    checkout = str(Path(__file__).resolve().parents[2])
    passed = {key: value for key, value in os.environ.items() if key.startswith(("SKIPBENCH_", "HF_"))}
    paths = os.pathsep.join(filter(None, (checkout, os.environ.get("PYTHONPATH"))))
    ray.init(
        include_dashboard=False,
        log_to_driver=False,
        configure_logging=False,
        runtime_env={"env_vars": {**passed, "PYTHONPATH": paths}},
    )
    return ray


def _share(ray, job: Job) -> dict:
    """What Ray must keep free for a job: a timing group gets a whole machine, or a GPU."""
    spec = (job.members[0] if isinstance(job, TimingJob) else job).spec
    gpus = 0 if isinstance(job, FloorJob) or not spec.decoding.device.startswith("cuda") else 1
    whole = max(node["Resources"].get("CPU", 1) for node in ray.nodes() if node["Alive"])
    return {"num_gpus": gpus, "num_cpus": whole if isinstance(job, TimingJob) else 1}


def _outcome(ray, done, name: str, job: Job, store: Store) -> str | None:
    """The reason if a job failed; a worker that died leaves one too."""
    try:
        return ray.get(done)
    except ray.exceptions.RayError as error:
        reason = f"the worker ended: {str(error).strip().splitlines()[-1]}"
        store.fail(name, {"label": job.label}, reason)
        return reason


def _work(root: str, plugins: list[Path], name: str, job: Job) -> str | None:
    """Runs in a worker: one job, recorded in the shared folder."""
    import torch

    from ..runner import attempt, workbench

    torch.set_num_threads(_threads(job))
    for file in plugins:
        load_plugin(file)
    with Reporter(quiet=True) as reporter, Store(root, joined=True) as store:
        return attempt(name, job, workbench(store, reporter))


def _threads(job: Job) -> int:
    """One for a job that shares the machine, all for a timing group."""
    return len(os.sched_getaffinity(0)) if isinstance(job, TimingJob) else 1
