"""Writing that survives a kill or a full disk at any moment: append whole batches, replace whole files.

Every change to the disk goes through the few `os` calls of this file, which the tests interrupt one by one.
"""

from __future__ import annotations

import contextlib
import glob
import os
import threading
from collections.abc import Iterator
from pathlib import Path

from ..errors import SkipbenchError
from .encoding import dumps, loads


def append(path: Path, data: bytes) -> None:
    """Append `data` and wait until the disk has it; on an error the file is as long as it was before.

    Raises SkipbenchError if the disk is full or fails.
    """
    with _explained(path):
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            length = os.fstat(handle).st_size
            try:
                _write_all(handle, data)
                os.fsync(handle)
            except OSError:
                with contextlib.suppress(OSError):
                    os.ftruncate(handle, length)
                raise
        finally:
            os.close(handle)


def replace(path: Path, data: bytes) -> None:
    """Put `data` in place of the file at once: readers see the old bytes or the new ones, never a part.

    Of several writers at the same time the last one wins. Raises SkipbenchError if the disk is full or fails.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_native_id()}.tmp")
    with _explained(path):
        try:
            handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
            try:
                _write_all(handle, data)
                os.fsync(handle)
            finally:
                os.close(handle)
            os.replace(temporary, path)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        _remove_abandoned(path)
        _sync_folder(path.parent)


def _remove_abandoned(path: Path) -> None:
    """Delete what killed processes left of earlier writes of this file."""
    for other in path.parent.glob(f".{glob.escape(path.name)}.*-*.tmp"):
        owner = other.name.removeprefix(f".{path.name}.").split("-")[0]
        if owner.isdecimal() and not _is_alive(int(owner)):
            with contextlib.suppress(OSError):
                os.unlink(other)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except (OSError, OverflowError):  # another user's, or no process number: not ours to judge
        return True
    return True


def replace_if_changed(path: Path, data: bytes) -> bool:
    """Like `replace`, but leaves a file that already has these bytes alone; returns whether it wrote."""
    if path.is_file() and path.read_bytes() == data:
        return False
    replace(path, data)
    return True


def replace_json(path: Path, document: object) -> None:
    """Write a JSON document as a whole, indented for people."""
    replace(path, json_bytes(document))


def json_bytes(document: object) -> bytes:
    """What `replace_json` writes."""
    return (dumps(document, indent=1) + "\n").encode()


def cure(path: Path) -> str:
    """What to do about a file of a results folder that is not as it was written; a run's files go together."""
    folder = path.parent
    part = folder if folder.parent.name == "runs" else path
    return (
        f"restore it, or move {part} elsewhere: what the suite needs of it is then made anew. --fresh does that for "
        "the suite's own results only; `skipbench verify` lists all that is wrong"
    )


def read_json(path: Path) -> dict:
    """The JSON object in a file; SkipbenchError names the file if it is missing, unreadable or no object."""
    try:
        document = loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise SkipbenchError(f"cannot read {path}: {error}; {cure(path)}") from error
    if not isinstance(document, dict):
        raise SkipbenchError(f"cannot read {path}: it holds no JSON object; {cure(path)}")
    return document


def cut(path: Path, length: int) -> None:
    """Shorten a file to `length` bytes and wait until the disk has it."""
    with _explained(path):
        handle = os.open(path, os.O_WRONLY)
        try:
            os.ftruncate(handle, length)
            os.fsync(handle)
        finally:
            os.close(handle)


def make_folder(path: Path) -> None:
    """Create a folder, and its parents, so that it outlives a crash."""
    with _explained(path):
        missing = [p for p in (path, *path.parents) if not p.exists()]
        path.mkdir(parents=True, exist_ok=True)
        for folder in reversed(missing):
            _sync_folder(folder.parent)


def remove(path: Path) -> None:
    """Delete a file if it is there."""
    with _explained(path), contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def _write_all(handle: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SkipbenchError(
            f"cannot write {path}: {error.strerror or error}. What was recorded before is kept; mend that (free some "
            "space, say) and give the same command again: it goes on from there"
        ) from error
