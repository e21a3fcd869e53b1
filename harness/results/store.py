"""The results folder of one suite: who may write, what is done, and how an interrupted run goes on."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
from collections.abc import Sequence
from pathlib import Path

from ..errors import SkipbenchError, UsageError
from .documents import CONFIG, SCHEMA, file_hash, load, not_ours
from .encoding import plain, seal
from .files import append, cut, json_bytes, make_folder, remove, replace_if_changed, replace_json
from .records import batch_lines, faults, read_lines, whole_batches

RECORDED_ONLY = frozenset({"environment", "suite", "training", "comparable"})  # may differ from start to start
OF_METHOD = frozenset({"given", "tuned"})  # in the run's id; older runs do not record them


class Store:
    """A results folder held by this process alone: `with Store(root) as store: …`.

    A second process is refused with UsageError, as is a folder that cannot be written to. The lock is the kernel's, so
    a killed process leaves none behind. `joined` is for the workers of the process that holds the lock; no two of them
    may be given the same job.
    """

    def __init__(self, root: str | Path, joined: bool = False) -> None:
        self.root, self.joined = Path(root), joined
        self._lock: int | None = None

    def __enter__(self) -> Store:
        make_folder(self.root)
        self._lock = None if self.joined else _locked(self.root)
        return self

    def __exit__(self, *exc) -> None:
        handle, self._lock = self._lock, None
        if handle is None:
            return
        try:
            with contextlib.suppress(OSError):
                os.ftruncate(handle, 0)  # a finished run leaves the same bytes, whichever process it was
        finally:
            os.close(handle)

    def open_run(self, run_id: str, config: dict) -> Run:
        """Begin a quality run, or go on with it; see `Run`.

        `config` is the content of run.json without `schema` and `run_id`. Raises SkipbenchError naming the first
        field in which an existing run.json differs.
        """
        self._check_held()
        return Run(self.root / "runs" / _checked_id(run_id), {"schema": SCHEMA, "run_id": run_id, **plain(config)})

    def is_complete(self, run_id: str) -> bool:
        """Whether a quality run has its scores."""
        return (self.root / "runs" / run_id / "scores.json").is_file()

    def has_timing(self, group_id: str) -> bool:
        """Whether a timing group was measured."""
        return (self.root / "timing" / f"{group_id}.json").is_file()

    def write_timing(self, group_id: str, document: dict) -> None:
        """Record a measured timing group as a whole and forget its earlier failure."""
        self.clear_failure(group_id)
        self._write("timing", group_id, seal({"schema": SCHEMA, "group_id": group_id, **document}))

    def fail(self, job_id: str, job: dict, error: BaseException | str) -> None:
        """Record that a job failed, with the reason in one line."""
        reason = error if isinstance(error, str) else f"{type(error).__name__}: {error}"
        self._write("failures", job_id, {"job": job, "error": " ".join(reason.split())})

    def clear_failure(self, job_id: str) -> None:
        """Forget a job's earlier failure."""
        remove(self.root / "failures" / f"{_checked_id(job_id)}.json")

    def write_suite(self, name: str, suite_hash: str, jobs: Sequence[str]) -> None:
        """Record what this folder should hold when complete: run ids and group ids, in order."""
        self._check_held()
        document = seal({"suite": name, "hash": suite_hash, "jobs": list(jobs)})
        replace_if_changed(self.root / "suite.json", json_bytes(document))

    def forget(self, job_id: str) -> None:
        """Delete what is recorded of a run or a timing group, so that it runs afresh."""
        self._check_held()
        folder = self.root / "runs" / _checked_id(job_id)
        remove(folder / "scores.json")  # first: a half-deleted run must not look complete
        remove(folder / "records.jsonl")
        shutil.rmtree(folder, ignore_errors=True)
        remove(self.root / "timing" / f"{job_id}.json")
        self.clear_failure(job_id)

    def _write(self, kind: str, name: str, document: dict) -> None:
        self._check_held()
        make_folder(self.root / kind)
        replace_json(self.root / kind / f"{_checked_id(name)}.json", document)

    def _check_held(self) -> None:
        if self._lock is None and not self.joined:
            raise RuntimeError("use the store as a context manager: with Store(root) as store")


class Run:
    """One quality run on disk. `notes` says, a sentence each, what opening it repaired; `complete`: it has scores.

    Opening cuts off a torn last line and an unfinished last batch, which must be run again whole. Raises
    SkipbenchError if a recorded example was altered or is there twice.
    """

    def __init__(self, folder: Path, config: dict) -> None:
        self.folder, self.config = folder, config
        self.notes: list[str] = []
        make_folder(folder)
        self._path = folder / "records.jsonl"
        if (folder / "run.json").exists():
            _check_same(folder / "run.json", config)
        elif self._path.exists():
            raise SkipbenchError(f"{folder} has records but no run.json; restore it, or run with --fresh")
        else:
            replace_json(folder / "run.json", config)
        self._records = self._repaired()
        self._done = {record["id"] for record in self._records}

    def _repaired(self) -> list[dict]:
        lines = read_lines(self._path)
        whole = whole_batches(lines.records)
        dropped = len(lines.records) - whole
        if lines.torn:
            self.notes.append(f"{self._path}: cut a torn last line of {lines.torn} bytes")
        if dropped:
            self.notes.append(f"{self._path}: dropped {dropped} records of an unfinished batch, which runs again")
        if dropped and any(r["batch"] != lines.records[whole]["batch"] for r in lines.records[whole:]):
            raise SkipbenchError(f"{self._path}: batch {lines.records[whole]['batch']} is damaged; run with --fresh")
        if wrong := faults(lines.records[:whole], None):
            raise not_ours(self._path, wrong[0])
        if lines.torn or dropped:
            cut(self._path, lines.ends[whole - 1] if whole else 0)
        return lines.records[:whole]

    @property
    def complete(self) -> bool:
        """Whether the run has its scores."""
        return (self.folder / "scores.json").is_file()

    def records(self) -> list[dict]:
        """The recorded examples, in the order they were appended."""
        return list(self._records)

    def done_ids(self) -> set[str]:
        """Ids of the recorded examples."""
        return set(self._done)

    def append(self, records: Sequence[dict]) -> None:
        """Record one whole batch: all its rows, at once, on the disk when this returns.

        Each record needs `id` and the batch's number `batch`. Raises SkipbenchError if the disk fails, ValueError
        if an id is there already.
        """
        ids = [record["id"] for record in records]
        double = [i for i in ids if i in self._done or ids.count(i) > 1]
        if double or self.complete:
            raise ValueError(f"{self.folder.name}: {double[0]!r} is recorded already" if double else "run is complete")
        append(self._path, batch_lines(records))
        self._records.extend({**plain(record), "batch_rows": len(records)} for record in records)
        self._done.update(ids)

    def finish(self, values: dict[str, dict], **extra) -> None:
        """Write scores.json: {metric: {"value", "low", "high", "note"}}; the run is complete then.

        `extra` are further JSON fields beside `values`. Raises SkipbenchError unless all `n` examples are recorded.
        """
        planned = self.config.get("n")
        count = len(self._records)
        if planned is not None and count != planned:
            raise SkipbenchError(f"{self.folder}: {count} of {planned} examples are recorded; not complete")
        document = {
            "schema": SCHEMA,
            "run_id": self.config["run_id"],
            "n": count,
            "values": values,
            "records_sha256": file_hash(self._path),
            "run_sha256": file_hash(self.folder / "run.json"),
            **extra,
        }
        remove(self.folder.parent.parent / "failures" / f"{self.config['run_id']}.json")
        replace_json(self.folder / "scores.json", seal(document))


def _locked(root: Path) -> int:
    """The open handle of the folder's lock file, locked for this process, whose number is written into it."""
    try:
        handle = os.open(root / ".lock", os.O_RDWR | os.O_CREAT, 0o644)
    except OSError as error:
        raise UsageError(f"cannot write to {root}: {error.strerror}; use a writable folder (--out)") from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with contextlib.suppress(OSError):  # a full disk must not stop what needs no room
            os.ftruncate(handle, 0)
            os.pwrite(handle, f"{os.getpid()}\n".encode(), 0)
        return handle
    except BlockingIOError as error:
        owner = os.pread(handle, 32, 0).decode("ascii", "replace").strip() or "(unknown)"
        os.close(handle)
        raise UsageError(
            f"process {owner} is writing to {root}; wait until it ends, or give another folder with --out"
        ) from error
    except OSError as error:
        os.close(handle)
        raise SkipbenchError(f"cannot lock {root}: {error.strerror}; use a folder on a local disk") from error
    except BaseException:
        os.close(handle)
        raise


def _check_same(path: Path, config: dict) -> None:
    where = _difference(_compared(load(path, CONFIG, config["run_id"])), _compared(config))
    if where:
        raise SkipbenchError(
            f"{path} was begun with another configuration: {where}. Use a new folder (--out), or --fresh"
        )


def _compared(config: dict) -> dict:
    method = {key: value for key, value in config["method"].items() if key not in OF_METHOD}
    return {key: value for key, value in {**config, "method": method}.items() if key not in RECORDED_ONLY}


def _difference(old: object, new: object, name: str = "") -> str | None:
    """The first field in which two JSON values differ, as a sentence; None if they are equal."""
    if old == new:
        return None
    if isinstance(old, dict) and isinstance(new, dict):
        key = next(k for k in [*old, *new] if k not in old or k not in new or old[k] != new[k])
        return _difference(old.get(key), new.get(key), f"{name}.{key}" if name else key)
    return f"{name} was {_brief(old)}, now {_brief(new)}"


def _brief(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "…"


def _checked_id(name: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9_=+,-][A-Za-z0-9._=+,-]{0,199}", name):
        raise ValueError(f"an id is up to 200 letters, digits, dots, dashes and the like, not {name!r}")
    return name
