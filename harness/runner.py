"""One job, start to finish: from its description to what stands in the results folder."""

from __future__ import annotations

from .jobs.floor import run_floor
from .jobs.planning import FloorJob, Job, QualityJob
from .jobs.quality_run import QualityRun
from .jobs.timing import run_timing
from .jobs.workbench import Workbench


def run_job(job: Job, bench: Workbench) -> None:
    """Do one job and record it in the workbench's store; raises whatever stops it."""
    if isinstance(job, QualityJob):
        QualityRun(job, bench).run()
    elif isinstance(job, FloorJob):
        run_floor(job, bench)
    else:
        run_timing(job, bench)
