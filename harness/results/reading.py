"""What a results folder holds, read without a lock; a file that was altered or cannot be read is named, never used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from ..errors import SkipbenchError, UsageError
from .documents import CONFIG, FAILURE, SCORES, SUITE, TIMING, file_hash, load, not_ours
from .files import read_json
from .records import read_lines

NOT_SCORED = "it is not the file that was scored"
TIMING_SETTING = ("batch_size", "dtype", "device", "threads", "attention", "decoding")


@dataclass(frozen=True)
class RunFiles:
    """One quality run on disk: `config` is run.json, `scores` is scores.json or None while the run is unfinished."""

    folder: Path
    config: dict
    scores: dict | None

    def records(self) -> list[dict]:
        """The whole lines of records.jsonl, in order; empty if an unfinished run has none yet.

        Raises SkipbenchError naming the file if it is not the one that was scored.
        """
        path = self.folder / "records.jsonl"
        lines = read_lines(path)
        if self.scores is not None and lines.sha256 != self.scores["records_sha256"]:
            raise not_ours(path, NOT_SCORED)
        return lines.records


def load_runs(root: Path) -> list[RunFiles]:
    """Every run of a results folder, finished or not, by run id.

    Raises SkipbenchError naming a file that cannot be read, was altered or is of another version.
    """
    folders = sorted(path for path in (root / "runs").glob("*") if path.is_dir() and any(path.iterdir()))
    return [load_run(folder) for folder in folders if not _just_begun(folder)]


def _just_begun(folder: Path) -> bool:
    """A run killed before its run.json was in place: nothing is recorded yet."""
    return all(path.name.startswith(".") for path in folder.iterdir())


def load_run(folder: Path) -> RunFiles:
    """One run of a results folder, from the folder of its own.

    Raises SkipbenchError naming a file that cannot be read, was altered or is of another version.
    """
    config = load(folder / "run.json", CONFIG, folder.name)
    if not (folder / "scores.json").exists():
        return RunFiles(folder, config, None)
    scores = load(folder / "scores.json", SCORES, folder.name)
    if file_hash(folder / "run.json") != scores["run_sha256"]:
        raise not_ours(folder / "run.json", NOT_SCORED)
    return RunFiles(folder, config, scores)


def load_timings(root: Path) -> list[dict]:
    """Every timing group, by group id, without what the suite has timed anew since.

    Raises SkipbenchError naming a file that cannot be read, was altered or is of another version.
    """
    paths = sorted((root / "timing").glob("*.json"))
    groups = {path.stem: load_timing(path) for path in paths}
    named = {name for name in (load_suite(root) or {}).get("jobs", []) if name in groups}
    anew = {key for name in named for key in _timed(groups[name])}
    return [group if name in named else _without(group, anew) for name, group in groups.items()]


def load_timing(path: Path) -> dict:
    """One timing group; raises SkipbenchError as `load_timings` does."""
    return load(path, TIMING, path.stem)


def _timed(group: dict) -> list[tuple]:
    """What of a group is timed but once: a run under the group's conditions."""
    setting = tuple(str(group.get(key)) for key in TIMING_SETTING)
    return [(entry.get("run_id"), *setting) for entry in group["methods"]]


def _without(group: dict, keys: set[tuple]) -> dict:
    kept = [entry for entry, key in zip(group["methods"], _timed(group), strict=True) if key not in keys]
    return {**group, "methods": kept}


def load_failures(root: Path) -> dict[str, dict]:
    """{job id: {"job", "error"}} of the jobs that failed and have not succeeded since."""
    return {path.stem: load(path, FAILURE) for path in sorted((root / "failures").glob("*.json"))}


def load_suite(root: Path) -> dict | None:
    """suite.json, or None if the folder has none."""
    path = root / "suite.json"
    return load(path, SUITE) if path.exists() else None


def check_folder(root: str | Path, needs: Sequence[str] = ("runs", "timing", "results.csv")) -> Path:
    """`root` as a Path, or UsageError if it holds no results."""
    root = Path(root)
    if not any((root / name).exists() for name in needs):
        raise UsageError(f"{root} holds no results; give the folder that `skipbench run … --out DIR` wrote")
    return root


def suite_name(root: str | Path) -> str | None:
    """The suite whose results a folder holds, as far as its suite.json can be read."""
    try:
        return str(read_json(Path(root) / "suite.json")["suite"])
    except (SkipbenchError, LookupError):
        return None
