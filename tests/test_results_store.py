"""The run store: what is recorded stays, what is unfinished runs again, and nothing is mixed."""

from __future__ import annotations

import errno
import json
import math
import os
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from results_fixtures import batches, metric, record, run_config

from harness.errors import SkipbenchError, UsageError
from harness.results import Store, load_failures, load_runs, load_suite, verify, write_results_csv
from harness.results.encoding import digest, dumps, is_sealed, loads, plain, seal
from harness.results.files import replace

VALUES = {"e2e_bleu": metric(50.0, 2.0)}


def finished(root: Path, n: int = 6, size: int = 2) -> Path:
    with Store(root) as store:
        run = store.open_run("r", run_config(n=n))
        for batch in batches(n, size):
            run.append(batch)
        run.finish(VALUES)
    return root / "runs" / "r"


# --- encoding ---------------------------------------------------------------------------------------------------------

NASTY = ["a\nb\r\n\n", "\u2028\u2029\u0085\x0b\x0c\x1c", "\x00", "🍕" * 3, "é" * 100_000, "\ud800 alone", "", '"\\{}']


@pytest.mark.parametrize("text", NASTY, ids=range(len(NASTY)))
def test_any_text_survives_the_round_trip_on_one_line(tmp_path, text):
    with Store(tmp_path) as store:
        store.open_run("r", run_config(n=1)).append([record(0, 0, output=text)])
    data = (tmp_path / "runs/r/records.jsonl").read_bytes()
    assert data.count(b"\n") == 1 and data.endswith(b"\n") and len(data.decode("ascii").splitlines()) == 1
    assert load_runs(tmp_path)[0].records()[0]["output"] == text


@given(st.text())
@settings(max_examples=200, deadline=None)
def test_text_round_trip_property(text):
    line = dumps({"output": text})
    assert len(line.splitlines()) == 1 and loads(line)["output"] == text


# T38
def test_numbers_of_numpy_and_torch_become_plain_json():
    torch = pytest.importorskip("torch")
    value = {
        "a": np.float32(0.5), "b": np.bool_(True), "c": np.nan, "d": math.inf, "e": np.int64(3), "f": np.array([1, 2]),
        "g": torch.tensor(2.5), "h": torch.tensor([1, 2]), "i": (1, float("-inf")), "j": np.float64("nan"),
        "k": torch.tensor(math.nan, dtype=torch.bfloat16),
    }  # fmt: skip
    assert json.loads(dumps(value)) == {
        "a": 0.5, "b": True, "c": None, "d": None, "e": 3, "f": [1, 2], "g": 2.5, "h": [1, 2], "i": [1, None],
        "j": None, "k": None,
    }  # fmt: skip


def test_numbers_of_numpy_and_torch_are_keys_as_pythons_are():
    torch = pytest.importorskip("torch")
    value = {np.int64(1): 2, np.uint8(3): {torch.tensor(4): 5}, np.str_("a"): 6}
    assert plain(value) == plain({1: 2, 3: {4: 5}, "a": 6}) and digest(value) == digest({1: 2, 3: {4: 5}, "a": 6})


@pytest.mark.parametrize(
    "value", [object(), {1.5: 2}, b"bytes", {1, 2}, {np.float64(1.5): 2}, {np.bool_(True): 1}, {True: 1}]
)
def test_what_is_no_json_is_refused_by_type(value):
    with pytest.raises(TypeError):
        plain(value)


# T38
def test_nan_in_a_file_is_refused():
    with pytest.raises(ValueError, match="NaN"):
        loads('{"a": NaN}')


def test_a_seal_breaks_with_any_change():
    sealed = seal({"a": [1, 2.5], "b": "x"})
    assert is_sealed(sealed) and is_sealed(loads(dumps(sealed)))
    assert not is_sealed({**sealed, "a": [1, 2.50001]}) and not is_sealed({**sealed, "c": 0})


# --- one writer -------------------------------------------------------------------------------------------------------

HOLD = """
import sys, time
from harness.results import Store
with Store(sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""


def hold(root: Path) -> subprocess.Popen:
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(root)], stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    return process


def test_a_second_process_is_refused_and_a_killed_one_leaves_no_lock(tmp_path):
    process = hold(tmp_path)
    try:
        with pytest.raises(UsageError, match=f"process {process.pid} is writing to .*--out"), Store(tmp_path):
            pass
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
    with Store(tmp_path):
        pass


def test_writing_without_the_lock_is_a_programming_error(tmp_path):
    with pytest.raises(RuntimeError, match="context manager"):
        Store(tmp_path).open_run("r", run_config())


# --- resuming ---------------------------------------------------------------------------------------------------------


# T36
def test_a_run_goes_on_after_its_last_whole_batch(tmp_path):
    planned = batches(6, 2)
    with Store(tmp_path) as store:
        store.open_run("r", run_config()).append(planned[0])
    with Store(tmp_path) as store:
        run = store.open_run("r", run_config())
        assert run.done_ids() == {"x0", "x1"} and not run.notes and not run.complete
        for batch in planned[1:]:
            run.append(batch)
        run.finish(VALUES)
        assert store.is_complete("r") and run.complete
        store.write_suite("quick", "h", ["r"])
    write_results_csv(tmp_path)
    assert [r["id"] for r in load_runs(tmp_path)[0].records()] == [f"x{i}" for i in range(6)]
    assert verify(tmp_path).ok


# T37
def test_a_file_cut_at_every_byte_of_its_last_batch_resumes_to_the_same_bytes(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    folder = finished(tmp_path)
    whole = (folder / "records.jsonl").read_bytes()
    lines = whole.split(b"\n")
    start = sum(len(line) + 1 for line in lines[:4])  # of the last batch: records 5 and 6
    (folder / "scores.json").unlink()
    for end in range(start, len(whole)):
        (folder / "records.jsonl").write_bytes(whole[:end])
        with Store(tmp_path) as store:
            run = store.open_run("r", run_config())
            assert run.done_ids() == {"x0", "x1", "x2", "x3"}
            assert bool(run.notes) == (end > start)
            run.append(batches(6, 2)[2])
        assert (folder / "records.jsonl").read_bytes() == whole


# T37
def test_repairs_are_said(tmp_path):
    folder = finished(tmp_path)
    (folder / "scores.json").unlink()
    data = (folder / "records.jsonl").read_bytes()
    (folder / "records.jsonl").write_bytes(data[:-10])
    with Store(tmp_path) as store:
        notes = store.open_run("r", run_config()).notes
    assert len(notes) == 2 and "cut a torn last line" in notes[0] and "dropped 1 records" in notes[1]


def test_an_id_is_recorded_once(tmp_path):
    with Store(tmp_path) as store:
        run = store.open_run("r", run_config())
        run.append([record(0, 0)])
        for double in ([record(0, 1)], [record(1, 1), record(1, 1)]):
            with pytest.raises(ValueError, match="recorded already"):
                run.append(double)
        with pytest.raises(ValueError, match="same batch"):
            run.append([record(2, 1), record(3, 2)])


def test_scores_need_every_example(tmp_path):
    with Store(tmp_path) as store:
        run = store.open_run("r", run_config(n=4))
        run.append(batches(2, 2)[0])
        with pytest.raises(SkipbenchError, match="2 of 4 examples"):
            run.finish(VALUES)


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"model": {**run_config()["model"], "weights": "b" * 64}}, r"model\.weights was 'aaa.*, now 'bbb"),
        ({"dtype": "bfloat16"}, "dtype was 'float32', now 'bfloat16'"),
        ({"extra": 1}, "extra was None, now 1"),
        ({"plan": {"prompt": [0], "steps": []}}, "plan was None"),
    ],
)
def test_another_configuration_is_named_not_mixed(tmp_path, change, field):
    with Store(tmp_path) as store:
        store.open_run("r", run_config())
        with pytest.raises(SkipbenchError, match=field):
            store.open_run("r", run_config(**change))


def test_environment_may_differ_between_starts(tmp_path):
    with Store(tmp_path) as store:
        store.open_run("r", run_config())
        store.open_run("r", run_config(environment={"git": "other"}, suite="tiny", comparable="with none"))


def test_a_corrupt_middle_line_is_named(tmp_path):
    folder = finished(tmp_path)
    lines = (folder / "records.jsonl").read_bytes().split(b"\n")
    lines[2] = lines[2][:40]
    (folder / "records.jsonl").write_bytes(b"\n".join(lines))
    with Store(tmp_path) as store, pytest.raises(SkipbenchError, match=r"records\.jsonl, line 3"):
        store.open_run("r", run_config())


def test_a_lost_middle_record_is_damage_not_an_unfinished_batch(tmp_path):
    folder = finished(tmp_path)
    lines = (folder / "records.jsonl").read_bytes().splitlines(keepends=True)
    (folder / "records.jsonl").write_bytes(b"".join(lines[:1] + lines[2:]))
    with Store(tmp_path) as store, pytest.raises(SkipbenchError, match="batch 0 is damaged"):
        store.open_run("r", run_config())
    assert (folder / "records.jsonl").read_bytes() == b"".join(lines[:1] + lines[2:])


def test_another_schema_is_refused(tmp_path):
    folder = finished(tmp_path)
    config = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**config, "schema": 99}))
    with Store(tmp_path) as store, pytest.raises(SkipbenchError, match="schema 99"):
        store.open_run("r", run_config())


@pytest.mark.parametrize("bad", ["", "../x", "a/b", ".hidden", "x" * 201])
def test_ids_cannot_leave_the_folder(tmp_path, bad):
    with Store(tmp_path) as store, pytest.raises(ValueError, match="an id is"):
        store.open_run(bad, run_config())


def damaged(data: bytes, how: str) -> bytes:
    lines = data.splitlines(keepends=True)
    return {
        "altered": data.replace(b"a plain sentence .", b"ALTERED", 1),
        "batch doubled": data + b"".join(lines[:2]),
        "id changed": data.replace(b'"id": "x1"', b'"id": "x0"', 1),
        "id foreign": data.replace(b'"id": "x0"', b'"id": "zz"', 1),
        "too deep": data + b"[" * 100_000 + b"\n",
    }[how]


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("altered", r"record 'x0' \(line 1\) was altered"),
        ("batch doubled", r"record 'x0' \(line 5\) is there twice"),
        ("id changed", r"record 'x0' \(line 2\) was altered"),
        ("id foreign", r"record 'zz' \(line 1\) was altered"),
        ("too deep", r"line 5: it is nested too deep"),
    ],
)
@pytest.mark.parametrize("torn", [b"", b'{"id": "x4'])
def test_damaged_records_are_neither_resumed_nor_cut(tmp_path, how, said, torn):
    with Store(tmp_path) as store:
        run = store.open_run("r", run_config())
        for batch in batches(6, 2)[:2]:
            run.append(batch)
    path = tmp_path / "runs/r/records.jsonl"
    data = damaged(path.read_bytes(), how) + torn
    path.write_bytes(data)
    with Store(tmp_path) as store, pytest.raises(SkipbenchError, match=rf"records\.jsonl.*{said}"):
        store.open_run("r", run_config())
    assert path.read_bytes() == data


def test_what_follows_whole_batches_may_be_anything_a_crash_leaves(tmp_path):
    """An altered record in an unfinished batch is cut with it, for that batch runs again."""
    planned = batches(6, 2)
    with Store(tmp_path) as store:
        run = store.open_run("r", run_config())
        run.append(planned[0])
        run.append(planned[1])
    path = tmp_path / "runs/r/records.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], lines[2].replace(b"plain", b"fancy")]))
    with Store(tmp_path) as store:
        assert store.open_run("r", run_config()).done_ids() == {"x0", "x1"}
    assert path.read_bytes() == b"".join(lines[:2])


@pytest.mark.parametrize("content", ["{", "[]", '{"suite": 3}'])
def test_a_broken_suite_file_is_written_anew(tmp_path, content):
    (tmp_path / "suite.json").write_text(content)
    with Store(tmp_path) as store:
        store.write_suite("quick", "h", ["r"])
        assert load_suite(tmp_path)["jobs"] == ["r"]


# --- several writers --------------------------------------------------------------------------------------------------


def test_a_folder_that_cannot_be_written_to_is_the_callers_mistake(tmp_path, monkeypatch):
    def refuse(path, *rest):
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(UsageError, match=r"Permission denied; use a writable folder \(--out\)"), Store(tmp_path):
        pass
    monkeypatch.undo()
    (tmp_path / ".lock").mkdir()  # and so for whatever else keeps the lock from being opened
    with pytest.raises(UsageError, match=r"use a writable folder"), Store(tmp_path):
        pass


def test_threads_that_replace_one_file_do_not_disturb_each_other(tmp_path):
    path, barrier = tmp_path / "results.csv", threading.Barrier(4)

    def write(number: int) -> None:
        for _ in range(40):
            barrier.wait(timeout=20)  # a thread that failed must not leave the others waiting
            replace(path, str(number).encode() * 10_000)

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(write, range(4)))  # raises what a thread raised
    assert path.read_bytes() in [str(number).encode() * 10_000 for number in range(4)]
    assert [p.name for p in tmp_path.iterdir()] == ["results.csv"]


def test_processes_that_replace_one_file_do_not_disturb_each_other(tmp_path):
    code = (
        "import sys, pathlib; from harness.results.files import replace\n"
        "for _ in range(60): replace(pathlib.Path(sys.argv[1]), b'x' * 100_000)"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "results.csv")]
    writers = [subprocess.Popen(command, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    assert [process.communicate()[1] for process in writers] == ["", ""]
    assert [p.name for p in tmp_path.iterdir()] == ["results.csv"]


def test_what_a_killed_writer_left_goes_with_the_next_write(tmp_path):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    left = [
        f".a.json.{dead.pid}-1.tmp",
        f".a.json.{os.getppid()}-1.tmp",
        f".b.json.{dead.pid}-1.tmp",
        ".a.json.x-1.tmp",
    ]
    for name in left:
        (tmp_path / name).write_text("part")
    replace(tmp_path / "a.json", b"{}")
    assert {p.name for p in tmp_path.iterdir()} == {"a.json", *left[1:]}


def test_a_replace_that_failed_leaves_the_old_file_alone(tmp_path, monkeypatch):
    path = tmp_path / "a.json"
    replace(path, b"old")

    def full(handle, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "write", full)
    with pytest.raises(SkipbenchError, match="No space left"):
        replace(path, b"new")
    assert path.read_bytes() == b"old" and [p.name for p in tmp_path.iterdir()] == ["a.json"]


# --- jobs that fail, and a full disk ----------------------------------------------------------------------------------


def test_a_failure_is_one_line_and_goes_when_the_job_succeeds(tmp_path):
    with Store(tmp_path) as store:
        store.fail("r", {"task": "e2e"}, ValueError("two\nlines"))
        store.fail("g", {}, "timing broke")
        assert load_failures(tmp_path)["r"] == {"job": {"task": "e2e"}, "error": "ValueError: two lines"}
        run = store.open_run("r", run_config(n=1))
        run.append([record(0, 0)])
        run.finish(VALUES)
        store.write_timing("g", {"methods": []})
        assert load_failures(tmp_path) == {} and store.has_timing("g")


def test_forget_makes_a_job_run_afresh(tmp_path):
    finished(tmp_path)
    with Store(tmp_path) as store:
        store.forget("r")
        assert not store.is_complete("r") and not store.open_run("r", run_config()).done_ids()


@pytest.mark.parametrize("after", [0, 7])
def test_a_full_disk_keeps_what_was_recorded(tmp_path, monkeypatch, after):
    """The disk fills up after `after` bytes of the second batch."""
    real, planned = os.write, batches(6, 2)
    with Store(tmp_path) as store:
        run = store.open_run("r", run_config())
        run.append(planned[0])
        before = (tmp_path / "runs/r/records.jsonl").read_bytes()
        room = [after]

        def full(handle, data):
            if not room[0]:
                raise OSError(errno.ENOSPC, "No space left on device")
            written = real(handle, bytes(data)[: room[0]])
            room[0] -= written
            return written

        monkeypatch.setattr(os, "write", full)
        with pytest.raises(SkipbenchError, match=r"records\.jsonl: No space left.*is kept.*same command again"):
            run.append(planned[1])
        monkeypatch.undo()
        assert (tmp_path / "runs/r/records.jsonl").read_bytes() == before
        run.append(planned[1])  # room again: the same process may go on
        assert run.done_ids() == {"x0", "x1", "x2", "x3"}
