"""What a results folder holds, read without a lock; a file that cannot be read is named, never passed over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import SkipbenchError, UsageError
from .files import read_json
from .records import read_lines


@dataclass(frozen=True)
class RunFiles:
    """One quality run on disk: `config` is run.json, `scores` is scores.json or None while the run is unfinished."""

    folder: Path
    config: dict
    scores: dict | None

    def records(self) -> list[dict]:
        """The whole lines of records.jsonl, in order; empty if the file is not there."""
        return read_lines(self.folder / "records.jsonl").records


def load_runs(root: Path) -> list[RunFiles]:
    """Every run of a results folder, finished or not, by run id. Raises SkipbenchError naming an unreadable file."""
    folders = sorted(path for path in (root / "runs").glob("*") if path.is_dir() and any(path.iterdir()))
    return [_load_run(folder) for folder in folders if not _just_begun(folder)]


def _just_begun(folder: Path) -> bool:
    """A run killed before its run.json was in place: nothing is recorded yet."""
    return all(path.name.startswith(".") for path in folder.iterdir())


def _load_run(folder: Path) -> RunFiles:
    scores = folder / "scores.json"
    config = _with(folder / "run.json", "run_id", "task", "method")
    return RunFiles(folder, config, _with(scores, "values") if scores.exists() else None)


def load_timings(root: Path) -> list[dict]:
    """Every timing group, by group id. Raises SkipbenchError naming an unreadable file."""
    paths = sorted((root / "timing").glob("*.json"))
    return [_with(path, "task", "source", "model", "methods") for path in paths]


def _with(path: Path, *names: str) -> dict:
    """A document that has these fields; SkipbenchError naming the file and the first one that is missing."""
    document = read_json(path)
    missing = next((name for name in names if not isinstance(document, dict) or name not in document), None)
    if missing:
        raise SkipbenchError(f"{path} is not what skipbench writes: it has no {missing!r}; move it out of the folder")
    return document


def load_failures(root: Path) -> dict[str, dict]:
    """{job id: {"job", "error"}} of the jobs that failed and have not succeeded since."""
    return {path.stem: read_json(path) for path in sorted((root / "failures").glob("*.json"))}


def load_suite(root: Path) -> dict | None:
    """suite.json, or None if the folder has none."""
    path = root / "suite.json"
    return read_json(path) if path.exists() else None


def check_folder(root: str | Path, needs: Sequence[str] = ("runs", "timing", "results.csv")) -> Path:
    """`root` as a Path, or UsageError if it holds no results."""
    root = Path(root)
    if not any((root / name).exists() for name in needs):
        raise UsageError(f"{root} holds no results; give the folder that `skipbench run … --out DIR` wrote")
    return root
