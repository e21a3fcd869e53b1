"""What tells models apart that bear one name: a hash over their files, or the hub's commit."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path

from ..backbone.names import hub_commit, model_path

WEIGHTS = (".safetensors", ".bin", ".gguf")
MEANING = (".json", ".jinja", ".model", ".txt")  # config (rotary base, ...), EOS, tokenizer: they change outputs too
TRAINING_FACTS = "training.json"  # says how long a training took


def weights_identity(name: str) -> str | None:
    """What tells the weights behind a name from others of that name; None for a built-in one, which is trained here.

    SHA-256 over a folder's weight files or a GGUF file; of a hub model the commit that is in the cache, else the hub's
    newest, else (no hub) None. Raises UsageError for a folder or file that is not there.
    """
    return _identity(name, WEIGHTS)


def model_identity(name: str) -> str | None:
    """As `weights_identity`, but over all that changes outputs, configuration and tokenizer included."""
    return _identity(name, (*WEIGHTS, *MEANING))


def _identity(name: str, suffixes: tuple[str, ...]) -> str | None:
    path = model_path(name)
    if path is None:
        return hub_commit(name)
    files = [path] if path.is_file() else sorted(path.iterdir())
    return _hash_of(tuple(_stamp(f) for f in files if f.suffix in suffixes and f.name != TRAINING_FACTS))


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
