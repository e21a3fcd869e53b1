"""What tells weights apart: a hash over their files."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path


def weights_hash(folder: Path) -> str:
    """SHA-256 over the weight files of a checkpoint folder."""
    digest = hashlib.sha256()
    for file in sorted(f for f in Path(folder).iterdir() if f.suffix in (".safetensors", ".bin", ".gguf")):
        digest.update(file.read_bytes())
    return digest.hexdigest()


@cache
def weights_identity(name: str) -> str | None:
    """SHA-256 of the weights behind a folder or file name; None for any other name, which stands for itself."""
    path = Path(name)
    if path.is_dir():
        return weights_hash(path)
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None
