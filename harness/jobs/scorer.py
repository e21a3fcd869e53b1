"""Which code scores: a run that other code has scored is not done. No torch here."""

from __future__ import annotations

import hashlib
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from ..results import Store
from ..results.files import read_json

SCORING = Path(__file__).resolve().parent.parent / "scoring"
LIBRARIES = ("sacrebleu", "rouge-score", "nltk")


@cache
def scorer() -> dict[str, str]:
    """What a task's metrics are computed with: a hash of our own code, and the libraries' versions."""
    code = hashlib.sha256()
    for path in sorted(SCORING.glob("*.py")):
        code.update(path.name.encode() + hashlib.sha256(path.read_bytes()).digest())
    return {"code": code.hexdigest()[:12], **{name: _version(name) for name in LIBRARIES}}


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def is_scored(name: str, store: Store) -> bool:
    """Whether a run is complete and its metrics are this code's. Raises SkipbenchError if its scores cannot be read."""
    path = store.root / "runs" / name / "scores.json"
    return store.is_complete(name) and read_json(path).get("scorer") == scorer()
