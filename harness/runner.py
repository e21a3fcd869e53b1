"""One job, start to finish: from its description to what stands in the results folder."""

from __future__ import annotations

import os
import traceback

from .errors import SkipbenchError
from .jobs.floor import run_floor
from .jobs.identity import job_id
from .jobs.planning import FloorJob, Job, QualityJob, TimingJob
from .jobs.quality_run import QualityRun
from .jobs.rescoring import rescore
from .jobs.timing import run_timing
from .jobs.workbench import Workbench
from .progress import Reporter
from .results import Store
from .training import Checkpoints


def workbench(store: Store, reporter: Reporter) -> Workbench:
    """What all jobs of this process share."""
    return Workbench(store, Checkpoints(announce=reporter.training), reporter.start, reporter.say)


def attempt(name: str, job: Job, bench: Workbench) -> str | None:
    """Run a job; the reason in one line if it fails, which is recorded too."""
    try:
        run_job(job, bench)
    except Exception as error:  # whatever a method, a library or a disk throws must not take the others along
        if os.environ.get("SKIPBENCH_DEBUG"):
            traceback.print_exc()
        reason = str(error) if isinstance(error, SkipbenchError) else f"{type(error).__name__}: {error}"
        reason = " ".join(reason.split())
        bench.store.fail(name, {"label": job.label}, reason)
        return reason
    return None


def run_job(job: Job, bench: Workbench) -> None:
    """Do one job and record it in the workbench's store; raises whatever stops it.

    A complete run is scored anew, which other code than this has scored.
    """
    if not isinstance(job, TimingJob) and bench.store.is_complete(job_id(job)):
        rescore(job, bench.store)
    elif isinstance(job, QualityJob):
        QualityRun(job, bench).run()
    elif isinstance(job, FloorJob):
        run_floor(job, bench)
    else:
        run_timing(job, bench)
