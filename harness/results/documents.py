"""The one place where a document of a results folder is read and checked: version, fields, name and seal."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from ..errors import SkipbenchError
from .encoding import is_sealed
from .files import cure, read_json

SCHEMA = 1


@dataclass(frozen=True)
class Kind:
    """What a document must be: `shape` (its fields, by name in `shapes`), whether it says its schema, the field that
    names its folder or file, and whether it is sealed."""

    shape: str
    versioned: bool = True
    named_by: str | None = None
    sealed: bool = True


CONFIG = Kind("Config", named_by="run_id", sealed=False)  # scores.json holds its hash
SCORES = Kind("Scores", named_by="run_id")
TIMING = Kind("Timing", named_by="group_id")
SUITE = Kind("Suite", versioned=False)
FAILURE = Kind("Failure", versioned=False, sealed=False)


def load(path: Path, kind: Kind, name: str | None = None) -> dict:
    """The document in a file, as it was written; `name` is the id it must bear.

    Raises SkipbenchError naming the file and what is wrong with it.
    """
    document = read_json(path)
    found = document_faults(document, kind, name)
    if found:
        raise not_ours(path, found[0])
    return document


def document_faults(document: dict, kind: Kind, name: str | None = None) -> list[str]:
    """What is wrong with a document, a phrase each: another version, other fields, another's, altered."""
    if kind.versioned and document.get("schema", SCHEMA) != SCHEMA:
        return [f"it has schema {document['schema']!r}, and this version knows {SCHEMA}"]  # its fields may be others
    from . import shapes  # pydantic takes a while to import, and not every command reads results

    found = [shapes.field_fault(getattr(shapes, kind.shape), document)]
    if kind.versioned and "schema" not in document:
        found.append("it has no 'schema'")
    if kind.named_by and document.get(kind.named_by, name) != name:
        found.append(f"it belongs to {document[kind.named_by]!r}")
    if kind.sealed and not is_sealed(document):
        found.append("it was altered" if "sha256" in document else "it has no 'sha256', which shows it unaltered")
    return [fault for fault in found if fault]


def not_ours(path: Path, fault: str) -> SkipbenchError:
    """The error for a file that is not as skipbench wrote it."""
    return SkipbenchError(f"{path} is not what skipbench writes: {fault}; {cure(path)}")


def file_hash(path: Path) -> str:
    """SHA-256 of a file's bytes; of none if it is not there."""
    return hashlib.sha256(path.read_bytes() if path.exists() else b"").hexdigest()
