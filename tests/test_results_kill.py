"""Real runs killed for real, ten times: what they leave in the end is what an undisturbed run leaves."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd
import pytest

from harness import read_results
from harness.results import load_runs, load_timings, verify

DEATHS = 10
RUN = "import sys; from harness import run_suite; run_suite('smoke', out=sys.argv[1])"


def start(root: Path) -> subprocess.Popen:
    """`smoke` with checkpoints of its own, so that training is killed too."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "SKIPBENCH_CHECKPOINTS": str(root / "checkpoints")}
    command = [sys.executable, "-c", RUN, str(root / "results")]
    return subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)


def finish(root: Path) -> None:
    process = start(root)
    errors = process.communicate(timeout=600)[1]
    assert process.returncode == 0, errors


def files(root: Path) -> dict[Path, int]:
    """Every file with its size; a file that vanishes while we look is left out."""
    found = {}
    for path in root.rglob("*"):
        try:
            found[path] = path.stat().st_size
        except FileNotFoundError:
            continue
    return {path: size for path, size in found.items() if path.name not in (".lock", "suite.json")}


def kill_at_work(root: Path, delay: float) -> None:
    """Start a run, wait until it has written something new, and kill it `delay` seconds later."""
    before, process, deadline = files(root), start(root), time.monotonic() + 600
    while files(root) == before:
        assert process.poll() is None and time.monotonic() < deadline, "it ended before it could be killed"
        time.sleep(0.002)
    time.sleep(delay)
    assert process.poll() is None, "it ended before it could be killed"
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL


def untimed(root: Path) -> pd.DataFrame:
    """results.csv without what the clock says."""
    clock = {name for group in load_timings(root) for entry in group["methods"] for name in entry["values"]}
    frame = read_results(root)
    return frame[~frame.metric.isin(clock - {"speedup_layers", "speedup_layers_batch"})].reset_index(drop=True)


def records(root: Path) -> dict[str, bytes]:
    return {run.config["run_id"]: (run.folder / "records.jsonl").read_bytes() for run in load_runs(root)}


# T36
@pytest.mark.long
def test_smoke_killed_ten_times_equals_an_undisturbed_run(tmp_path):
    chance = random.Random(6)
    for _ in range(DEATHS):
        kill_at_work(tmp_path / "killed", chance.uniform(0, 0.3))
    finish(tmp_path / "killed")
    finish(tmp_path / "calm")
    killed, calm = tmp_path / "killed" / "results", tmp_path / "calm" / "results"
    assert records(killed) == records(calm)
    pd.testing.assert_frame_equal(untimed(killed), untimed(calm))
    names = {path.relative_to(calm) for path in calm.rglob("*")}
    assert {path.relative_to(killed) for path in killed.rglob("*")} == names
    verdict = verify(killed)
    assert verdict.ok, str(verdict)
    for run in load_runs(killed):
        ids = [record["id"] for record in run.records()]
        assert len(ids) == len(set(ids)) == run.config["n"]
