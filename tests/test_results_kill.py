"""A real run killed for real, ten times: what it leaves in the end is what an undisturbed run leaves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harness.results import load_runs, verify

DEATHS = 10
RUN = "import sys; from harness import run_suite; run_suite('smoke', out=sys.argv[1], method='full,skipdecode,calm')"


def start(root: Path) -> subprocess.Popen:
    command = [sys.executable, "-c", RUN, str(root)]
    return subprocess.Popen(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, stderr=subprocess.PIPE, text=True)


def finish(root: Path) -> float:
    begun = time.monotonic()
    process = start(root)
    errors = process.communicate(timeout=600)[1]
    assert process.returncode == 0, errors
    return time.monotonic() - begun


def outcome(root: Path) -> dict[str, tuple]:
    runs = load_runs(root)
    return {r.config["run_id"]: ((r.folder / "records.jsonl").read_bytes(), r.scores["values"]) for r in runs}


# T36
@pytest.mark.long
def test_smoke_killed_ten_times_equals_an_undisturbed_run(tmp_path):
    finish(tmp_path / "calm")  # makes the checkpoints, which both runs share
    (tmp_path / "calm").rename(tmp_path / "first")
    seconds = finish(tmp_path / "calm")
    killed = 0
    for death in range(DEATHS):
        process = start(tmp_path / "killed")
        time.sleep(seconds * (0.25 + 0.7 * death / DEATHS))
        killed += process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.communicate()
    assert killed >= DEATHS // 2
    finish(tmp_path / "killed")
    assert outcome(tmp_path / "killed") == outcome(tmp_path / "calm")
    verdict = verify(tmp_path / "killed")
    assert verdict.ok, str(verdict)
    for run in load_runs(tmp_path / "killed"):
        ids = [record["id"] for record in run.records()]
        assert len(ids) == len(set(ids)) == run.config["n"]
