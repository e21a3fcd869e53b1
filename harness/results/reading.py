"""What a results folder holds, read without a lock; a file that cannot be read is named, never passed over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import UsageError
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
    return RunFiles(folder, read_json(folder / "run.json"), read_json(scores) if scores.exists() else None)


def load_timings(root: Path) -> list[dict]:
    """Every timing group, by group id. Raises SkipbenchError naming an unreadable file."""
    return [read_json(path) for path in sorted((root / "timing").glob("*.json"))]


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
