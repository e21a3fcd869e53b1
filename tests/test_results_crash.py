"""A run killed at any moment: before, in the middle of and after every call that changes the disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from results_fixtures import batches, metric, run_config

from harness.results import Store, load_runs, verify, write_results_csv

CALLS = ("write", "fsync", "replace", "ftruncate", "open", "unlink", "mkdir", "close", "pwrite")
SUITE = {"run-a": (9, 2), "run-b": (5, 2)}  # run id: examples, batch size


@pytest.fixture(autouse=True, scope="module")
def quick_disk():
    """Waiting for the real disk proves nothing here."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda handle: None)
        yield


class Killed(BaseException):
    """The process is gone: nothing may catch this and go on."""


def main_job(root: Path) -> None:
    """A suite with a fake decoder: two runs, a timing group, results.csv. Resumes as the runner does."""
    with Store(root) as store:
        store.write_suite("fake", "hash", [*SUITE, "group"])
        for run_id, (n, size) in SUITE.items():
            if store.is_complete(run_id):
                continue
            run = store.open_run(run_id, run_config(run_id, n=n))
            for batch in batches(n, size, output="line\none\u2028 🍕"):
                if batch[0]["id"] not in run.done_ids():
                    run.append(batch)
            run.finish({"mean_length": metric(sum(r["length"] for r in run.records()) / n)})
        if not store.has_timing("group"):
            store.write_timing("group", {"task": "e2e", "source": "stand-in", "model": {"name": "m"}, "methods": []})
        write_results_csv(root)


class Killer:
    """Counts the disk calls of `main_job` and kills the process at one of them; afterwards nothing works any more."""

    def __init__(self, monkeypatch, at: float, how: str) -> None:
        self.count, self.at, self.how = 0, at, how
        for name in CALLS:
            monkeypatch.setattr(os, name, self._wrapped(name, getattr(os, name)))

    def _wrapped(self, name, real):
        def call(*args, **kwargs):
            if self.count > self.at and name != "close":  # the kernel closes a dead process's files
                raise Killed
            self.count += name != "close"
            if self.count <= self.at or name == "close":
                return real(*args, **kwargs)
            if self.how == "after":
                real(*args, **kwargs)
            if self.how == "middle" and name == "write":
                real(args[0], bytes(args[1])[: len(args[1]) // 2])
            raise Killed

        return call


def results(root: Path) -> dict[str, bytes]:
    files = (p for p in root.rglob("*") if p.is_file() and not p.name.startswith("."))
    return {str(p.relative_to(root)): p.read_bytes() for p in files}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, quick_disk) -> tuple[dict[str, bytes], int]:
    root = tmp_path_factory.mktemp("undisturbed")
    with pytest.MonkeyPatch.context() as patch:
        killer = Killer(patch, at=10**9, how="before")
        main_job(root / "out")
    return results(root / "out"), killer.count


def kill_and_resume(root: Path, at: int, how: str) -> None:
    with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
        Killer(patch, at, how)
        main_job(root)
    main_job(root)


# T36
@pytest.mark.parametrize("how", ["before", "middle", "after"])
def test_killed_at_every_disk_call(tmp_path, undisturbed, how):
    expected, calls = undisturbed
    assert calls >= 70, "three ways of dying at each make more than 200 points"
    for at in range(calls):
        root = tmp_path / str(at)
        kill_and_resume(root, at, how)
        assert results(root) == expected, f"killed {how} call {at}"
        assert verify(root).ok, verify(root).problems


def test_killed_again_and_again(tmp_path, undisturbed):
    expected, _ = undisturbed
    deaths = 0
    for at in range(3, 60, 2):  # each life gets a little further than the last
        with pytest.MonkeyPatch.context() as patch:
            Killer(patch, at, "middle")
            try:
                main_job(tmp_path)
            except Killed:
                deaths += 1
    main_job(tmp_path)
    assert deaths >= 10 and results(tmp_path) == expected
    ids = [r["id"] for run in load_runs(tmp_path) for r in run.records()]
    assert len(ids) == sum(n for n, _ in SUITE.values())
