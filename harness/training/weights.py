"""What tells weights apart: a hash over their files."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

SUFFIXES = (".safetensors", ".bin", ".gguf")


def weights_hash(folder: Path) -> str:
    """SHA-256 over the weight files of a checkpoint folder."""
    return _hash_of(tuple(_stamp(f) for f in sorted(Path(folder).iterdir()) if f.suffix in SUFFIXES))


def weights_identity(name: str) -> str | None:
    """SHA-256 of the weights behind a folder or file name; None for any other name, which stands for itself."""
    path = Path(name)
    if path.is_dir():
        return weights_hash(path)
    return _hash_of((_stamp(path),)) if path.is_file() else None


def _stamp(file: Path) -> tuple[Path, int, int]:
    """The file, and what changes when it is written anew."""
    status = file.stat()
    return file, status.st_mtime_ns, status.st_size


@cache
def _hash_of(stamps: tuple[tuple[Path, int, int], ...]) -> str:
    digest = hashlib.sha256()
    for file, *_ in stamps:
        digest.update(file.read_bytes())
    return digest.hexdigest()
