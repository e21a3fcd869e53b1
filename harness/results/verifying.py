"""`skipbench verify DIR`: what is missing, double or altered in a results folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from ..errors import SkipbenchError
from .documents import CONFIG, SCORES, SUITE, TIMING, document_faults, file_hash
from .files import read_json
from .reading import NOT_SCORED, check_folder, load_failures
from .records import Lines, faults, read_lines
from .tidy import results_csv


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
    batches, torn lines, files that are missing, no JSON, of another version, another job's or changed after they were
    written, and a results.csv that does not follow from the runs. Raises UsageError if the folder holds no results.
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
    found += [f"run.json: {text}" for text in document_faults(config, CONFIG, folder.name)]
    if scores is None:
        return [*found, "it is not finished (no scores.json)"]
    return found + _score_faults(folder, scores, lines)


def _score_faults(folder: Path, scores: dict, lines: Lines) -> list[str]:
    found = [f"scores.json: {text}" for text in document_faults(scores, SCORES, folder.name)]
    if lines.sha256 != scores.get("records_sha256"):
        found.append(f"records.jsonl: {NOT_SCORED}")
    if file_hash(folder / "run.json") != scores.get("run_sha256"):
        found.append(f"run.json: {NOT_SCORED}")
    return found


def _timing_faults(path: Path) -> list[str]:
    try:
        return document_faults(read_json(path), TIMING, path.stem)
    except SkipbenchError as error:
        return [str(error)]


def _suite_faults(root: Path, done: set[str]) -> list[str]:
    try:
        failures = load_failures(root)
        suite = read_json(root / "suite.json") if (root / "suite.json").exists() else None
    except SkipbenchError as error:
        return [str(error)]
    found = [f"job {job} failed: {failure['error']}" for job, failure in failures.items()]
    if suite is None:
        return [*found, "suite.json is missing, so it is not known which jobs should be here"]
    wrong = [f"suite.json: {text}" for text in document_faults(suite, SUITE)]
    if wrong:
        return found + wrong
    missing = [job for job in suite["jobs"] if job not in done and job not in failures]
    return found + [f"job {job} of suite {suite['suite']} has not run" for job in missing]


def _csv_faults(root: Path) -> list[str]:
    path = root / "results.csv"
    if not path.exists():
        return ["results.csv is missing; `skipbench report` writes it"]
    if path.read_bytes() != results_csv(root).encode("utf-8", "backslashreplace"):
        return ["results.csv does not follow from the runs; `skipbench report` writes it anew"]
    return []
