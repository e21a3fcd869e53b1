"""The records of one run: a line an example, appended batch by batch, repaired when a run is opened again.

`append` stamps each record with `batch_rows` (how many rows its batch has) and `sha256` (of the rest of the record),
so that a file says by itself which batches are whole and which records were altered.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import SkipbenchError
from .encoding import dumps, is_sealed, loads, seal


def batch_lines(records: Sequence[dict]) -> bytes:
    """The lines of one whole batch, sealed. The records need `id` and one common `batch` number."""
    if not records or len({record["batch"] for record in records}) != 1:
        raise ValueError("a batch is one or more records with the same batch number")
    sealed = [seal({**record, "batch_rows": len(records)}) for record in records]
    return "".join(dumps(record) + "\n" for record in sealed).encode()


@dataclass
class Lines:
    """What a records file holds: `records`, `ends` (byte offset after each), the bytes of a torn last line, and the
    SHA-256 of the file."""

    records: list[dict]
    ends: list[int]
    torn: int
    sha256: str


def read_lines(path: Path) -> Lines:
    """Every whole line of a records file; a last line without its newline counts as torn.

    Raises SkipbenchError naming the line if a whole line is no record.
    """
    data = path.read_bytes() if path.exists() else b""
    whole = data[: data.rfind(b"\n") + 1]
    lines = Lines([], [], len(data) - len(whole), hashlib.sha256(data).hexdigest())
    end = 0
    for number, line in enumerate(whole.split(b"\n")[:-1], start=1):
        end += len(line) + 1
        lines.records.append(_parse(path, number, line))
        lines.ends.append(end)
    return lines


def _parse(path: Path, number: int, line: bytes) -> dict:
    try:
        record = loads(line)
        if not _is_record(record):
            raise ValueError("it is no record")
    except ValueError as error:
        raise SkipbenchError(f"cannot read {path}, line {number}: {error}; see `skipbench verify`") from error
    return record


def _is_record(value: object) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("id"), (str, int)) or "batch" not in value:
        return False
    return isinstance(value.get("batch_rows"), int) and value["batch_rows"] > 0


def whole_batches(records: Sequence[dict]) -> int:
    """How many leading records form whole batches; what follows is an unfinished batch."""
    done = 0
    while done < len(records):
        rows = records[done]["batch_rows"]
        batch = records[done : done + rows]
        if len(batch) < rows or any(r["batch"] != batch[0]["batch"] for r in batch):
            return done
        done += rows
    return done


def faults(records: Sequence[dict], planned: int | None) -> list[str]:
    """What is wrong with a run's records, a sentence each: altered, double, missing, unfinished."""
    found = [f"record {r['id']!r} (line {i}) was altered" for i, r in enumerate(records, 1) if not is_sealed(r)]
    seen: set[str] = set()
    for number, record in enumerate(records, start=1):
        if record["id"] in seen:
            found.append(f"record {record['id']!r} (line {number}) is there twice")
        seen.add(record["id"])
    if whole_batches(records) < len(records):
        found.append(f"batch {records[whole_batches(records)]['batch']} is not whole")
    if planned is not None and len(seen) != planned:
        found.append(f"{len(seen)} of {planned} examples are recorded")
    return found
