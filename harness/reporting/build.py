"""Everything a report consists of, made anew only when its inputs changed."""

from __future__ import annotations

import hashlib
from pathlib import Path

from ..results import load_failures, load_runs, load_suite, write_results_csv
from ..results.files import read_json, replace_if_changed, replace_json
from ..results.reading import check_folder

STAMP = ".report.json"  # digest of the inputs and the files made from them


def build_report(root: str | Path, only_if_changed: bool = True) -> list[Path]:
    """Bring results.csv, tables/, plots/ and report.html of a results folder up to date.

    Returns every file of the report. With `only_if_changed` nothing is drawn, and neither matplotlib nor scipy
    imported, if the inputs and this program are as they were and the files are still there. Raises UsageError if the
    folder holds no results, SkipbenchError naming a file that cannot be read.
    """
    root = check_folder(root, ("runs", "timing"))
    results = write_results_csv(root)
    digest = input_digest(root)
    made = _stamped(root, digest) if only_if_changed else None
    if made is None:
        made = _build(root)
        names = [str(path.relative_to(root)) for path in made]
        replace_json(root / STAMP, {"digest": digest, "files": names})
    return [results, *made]


def input_digest(root: Path) -> str:
    """SHA-256 of what a report depends on: the results' documents and the bytes of this room."""
    digest = hashlib.sha256()
    here = Path(__file__).parent
    sources = [*here.glob("*.py"), *(here / "published").glob("*.csv"), *(here / "assets").glob("*")]
    inputs = [p for pattern in ("runs/*/*.json", "timing/*.json", "failures/*.json", "suite.json")
              for p in root.glob(pattern)]  # fmt: skip
    for path in sorted(p for p in (*sources, *inputs) if p.is_file() and not p.name.startswith(".")):
        digest.update(f"{path.name}:{path.parent.name}\n".encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _stamped(root: Path, digest: str) -> list[Path] | None:
    """The files of the last report if it was made from the same inputs and all are there."""
    if not (root / STAMP).is_file():
        return None
    stamp = read_json(root / STAMP)
    files = [root / name for name in stamp["files"]]
    return files if stamp["digest"] == digest and all(path.is_file() for path in files) else None


def _build(root: Path) -> list[Path]:
    from . import claims, page, paper_tables
    from .panels import panels
    from .points import load_points

    groups = panels(load_points(root))
    judgements = claims.judge_panels(groups)
    verdicts, tables = claims.claims_table(judgements), paper_tables.build(groups)
    files = _write_tables(root / "tables", [verdicts, *tables] if judgements else tables)
    plots = _draw(root / "plots", groups)
    text = page.render(groups, tables, judgements, verdicts, plots, _missing(root))
    replace_if_changed(root / "report.html", text.encode("utf-8"))
    made = [*files, *plots, root / "report.html"]
    _remove_stale(root, made)
    return made


def _missing(root: Path) -> list[str]:
    """What is missing in the folder, a sentence each: failed jobs, unfinished runs, jobs that have not begun."""
    failures, jobs = load_failures(root), (load_suite(root) or {}).get("jobs", [])
    unfinished = {run.folder.name for run in load_runs(root) if run.scores is None} - set(failures)
    done = {path.parent.name for path in root.glob("runs/*/scores.json")} | {p.stem for p in root.glob("timing/*.json")}
    found = [f"{job} failed: {failure.get('error')}" for job, failure in failures.items()]
    found += [f"{job} is not finished" for job in sorted(unfinished)]
    return found + [f"{job} has not run" for job in jobs if job not in done | unfinished | set(failures)]


def _write_tables(folder: Path, tables) -> list[Path]:
    folder.mkdir(parents=True, exist_ok=True)
    made = []
    for table in tables:
        for ending, text in (("md", table.markdown()), ("tex", table.latex()), ("csv", table.csv())):
            path = folder / f"{table.id}.{ending}"
            replace_if_changed(path, text.encode("utf-8", "backslashreplace"))
            made.append(path)
    return made


def _draw(folder: Path, groups) -> list[Path]:
    from . import costs, curves, plans
    from .style import styled

    with styled():
        return [path for panel in groups for part in (curves, plans, costs) for path in part.draw(panel, folder)]


def _remove_stale(root: Path, made: list[Path]) -> None:
    """Delete files of the last report that this one no longer has; they would mislead."""
    before = read_json(root / STAMP)["files"] if (root / STAMP).is_file() else []
    for path in {root / name for name in before} - set(made):
        path.unlink(missing_ok=True)
