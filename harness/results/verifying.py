"""`skipbench verify DIR`: what is missing, double or altered in a results folder."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path

from ..errors import SkipbenchError
from .encoding import is_sealed
from .files import read_json
from .reading import RunFiles, check_folder, load_failures, load_suite
from .records import faults, read_lines
from .store import SCHEMA
from .tidy import results_csv

UNSEALED = {"suite", "hash", "jobs"}  # what suite.json held before it was sealed


@dataclass(frozen=True)
class Verdict:
    """`problems` (a sentence each) and how many runs and timing groups were looked at; `ok` if nothing is wrong."""

    problems: list[str]
    runs: int
    timings: int

    @property
    def ok(self) -> bool:
        """Whether the folder is whole."""
        return not self.problems

    def __str__(self) -> str:
        seen = f"{self.runs} runs and {self.timings} timing groups"
        return "\n".join(
            [*self.problems, f"{len(self.problems)} problems in {seen}" if self.problems else f"{seen}: whole"]
        )


def verify(root: str | Path) -> Verdict:
    """Read everything in a results folder again and say what is wrong; changes nothing.

    Found: jobs of suite.json without results, jobs that failed, records missing, double or altered, unfinished
    batches, torn lines, files that are missing, no JSON or were changed after they were written, and a results.csv that
    does not follow from the runs. Raises UsageError if the folder holds no results.
    """
    root = check_folder(root, ("runs", "timing"))
    problems, done = [], set()
    runs = sorted(path for path in (root / "runs").glob("*") if path.is_dir())
    timings = sorted((root / "timing").glob("*.json"))
    for folder in runs:
        problems += [f"runs/{folder.name}: {text}" for text in _run_faults(folder)]
        done.add(folder.name)
    for path in timings:
        problems += [f"timing/{path.name}: {text}" for text in _timing_faults(path)]
        done.add(path.stem)
    problems += _suite_faults(root, done)
    return Verdict(problems or _csv_faults(root), len(runs), len(timings))


def _run_faults(folder: Path) -> list[str]:
    try:
        config = read_json(folder / "run.json")
        lines = read_lines(folder / "records.jsonl")
        scores = read_json(folder / "scores.json") if (folder / "scores.json").exists() else None
    except SkipbenchError as error:
        return [str(error)]
    found = faults(lines.records, config.get("n"))
    found += [f"the last record is torn ({lines.torn} bytes)"] if lines.torn else []
    found += _config_faults(folder, config)
    run = RunFiles(folder, config, scores)
    return found + (["it is not finished (no scores.json)"] if scores is None else _score_faults(run))


def _config_faults(folder: Path, config: dict) -> list[str]:
    found = []
    if config.get("run_id") != folder.name:
        found.append(f"run.json belongs to run {config.get('run_id')!r}")
    if config.get("schema") != SCHEMA:
        found.append(f"run.json has schema {config.get('schema')!r}, not {SCHEMA}")
    return found


def _score_faults(run: RunFiles) -> list[str]:
    found = [] if is_sealed(run.scores) else ["scores.json was altered"]
    for key, name in (("records_sha256", "records.jsonl"), ("run_sha256", "run.json")):
        path = run.folder / name
        data = path.read_bytes() if path.exists() else b""
        if hashlib.sha256(data).hexdigest() != run.scores.get(key):
            found.append(f"{name} is not the file that was scored")
    return found


def _timing_faults(path: Path) -> list[str]:
    try:
        return [] if is_sealed(read_json(path)) else ["it was altered"]
    except SkipbenchError as error:
        return [str(error)]


def _suite_faults(root: Path, done: set[str]) -> list[str]:
    try:
        suite, failures = load_suite(root), load_failures(root)
    except SkipbenchError as error:
        return [str(error)]
    found = [f"job {job} failed: {failure.get('error')}" for job, failure in failures.items()]
    if suite is None:
        return [*found, "suite.json is missing, so it is not known which jobs should be here"]
    if not is_sealed(suite) and suite.keys() != UNSEALED:
        found.append("suite.json was altered")
    missing = [job for job in suite.get("jobs", []) if job not in done and job not in failures]
    return found + [f"job {job} of suite {suite['suite']} has not run" for job in missing]


def _csv_faults(root: Path) -> list[str]:
    path = root / "results.csv"
    if not path.exists():
        return ["results.csv is missing; `skipbench report` writes it"]
    if path.read_bytes() != results_csv(root).encode("utf-8", "backslashreplace"):
        return ["results.csv does not follow from the runs; `skipbench report` writes it anew"]
    return []
