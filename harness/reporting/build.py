"""Everything a report consists of, made anew only when its inputs changed."""

from __future__ import annotations

import hashlib
from pathlib import Path

from ..errors import SkipbenchError
from ..results import load_failures, load_runs, load_suite, write_results_csv
from ..results.encoding import is_sealed, seal
from ..results.files import read_json, replace_if_changed, replace_json
from ..results.reading import check_folder
from .points import REFERENCE

PARTS = ("runs", "timing", "failures", "suite.json")  # of which a results folder has at least one
DEPTH = "/depth"
STAMP = ".report.json"  # digest of the inputs and the files made from them


def build_report(root: str | Path, only_if_changed: bool = True) -> list[Path]:
    """Bring results.csv, tables/, plots/ and report.html of a results folder up to date.

    Returns every file of the report. With `only_if_changed` nothing is drawn, and neither matplotlib nor scipy
    imported, if the inputs and this program are as they were and the files are still there; and only the plots of
    panels that changed are drawn. Raises UsageError if the folder holds no results, SkipbenchError naming a file that
    cannot be read.
    """
    root = check_folder(root, PARTS)
    results = write_results_csv(root)
    digest, stamp = input_digest(root), _stamp(root)
    files = [root / name for name in stamp["files"]]
    if only_if_changed and _made_from(digest, root, stamp):
        return [results, *files]
    made, plots = _build(root, stamp["plots"] if only_if_changed else {})
    for path in set(files) - set(made):  # what this report no longer has would mislead
        path.unlink(missing_ok=True)
    names = [str(path.relative_to(root)) for path in made]
    replace_json(root / STAMP, seal({"digest": digest, "files": names, "plots": plots}))
    return [results, *made]


def is_current(root: str | Path) -> bool:
    """Whether `build_report` would find everything as it should be. Raises as it does."""
    root = check_folder(root, PARTS)
    return (root / "results.csv").is_file() and _made_from(input_digest(root), root, _stamp(root))


def _made_from(digest: str, root: Path, stamp: dict) -> bool:
    return stamp.get("digest") == digest and all((root / name).is_file() for name in stamp["files"])


def _stamp(root: Path) -> dict:
    """What the last report left; as if there had been none, if that is not as it was written."""
    try:
        stamp = read_json(root / STAMP) if (root / STAMP).is_file() else {}
    except SkipbenchError:
        stamp = {}
    return stamp if is_sealed(stamp) else {"files": [], "plots": {}}


def input_digest(root: Path) -> str:
    """SHA-256 of what a report depends on: the results' documents and the bytes of this room."""
    patterns = ("runs/*/*.json", "timing/*.json", "failures/*.json", "suite.json")
    return _digest([*_sources(), *(p for pattern in patterns for p in root.glob(pattern))])


def _sources() -> list[Path]:
    here = Path(__file__).parent
    return [*here.rglob("*.py"), *(here / "published").glob("*.csv"), *(here / "assets").glob("*")]


def _digest(paths: list[Path]) -> str:
    digest = hashlib.sha256()
    for path in sorted(p for p in paths if not p.name.startswith(".")):
        digest.update(f"{path.name}:{path.parent.name}\n".encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def _build(root: Path, drawn: dict) -> tuple[list[Path], dict]:
    """Every file of the report, and what was drawn: {panel: {"digest", "files"}}; `drawn` is that of the last time."""
    from . import page
    from .claims import claims
    from .panels import panels
    from .points import load_points
    from .tables import paper_tables

    groups = panels(load_points(root))
    judgements = claims.judge_panels(groups)
    verdicts, tables = claims.claims_table(judgements), paper_tables.build(groups)
    files = _write_tables(root / "tables", [verdicts, *tables] if judgements else tables)
    drawn = _draw(root / "plots", groups, drawn)
    plots = [root / "plots" / name for panel in drawn.values() for name in panel["files"]]
    text = page.render(groups, tables, judgements, verdicts, plots, _missing(root))
    replace_if_changed(root / "report.html", text.encode("utf-8", "backslashreplace"))
    return [*files, *plots, root / "report.html"], drawn


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


def _draw(folder: Path, groups, drawn: dict) -> dict:
    """Draw the panels that are not as they were when last drawn."""
    from .plots.looks import assign_looks

    looks = assign_looks(point.label for panel in groups for point in panel.methods if point.method != REFERENCE)
    code = _digest(_sources())
    made = {}
    for panel in groups:
        here = repr([looks.get(point.label) for point in panel.methods])  # another panel's methods may change them
        digest = hashlib.sha256((code + here + _contents(panel)).encode("utf-8", "backslashreplace")).hexdigest()
        old = drawn.get(panel.slug, {})
        current = old.get("digest") == digest and all((folder / name).is_file() for name in old["files"])
        made[panel.slug] = old if current else {"digest": digest, "files": _draw_panel(folder, panel, looks)}
    made |= _draw_depth(folder, groups, code, drawn)
    return made


def _draw_depth(folder: Path, groups, code: str, drawn: dict) -> dict:
    """The pictures that compare models of several depths, kept under a name no panel has."""
    from .plots import depth
    from .plots.style import styled

    digest = hashlib.sha256((code + "".join(map(_contents, groups))).encode("utf-8", "backslashreplace")).hexdigest()
    old = drawn.get(DEPTH, {})
    if old.get("digest") == digest and all((folder / name).is_file() for name in old["files"]):
        return {DEPTH: old}
    with styled():
        return {DEPTH: {"digest": digest, "files": [path.name for path in depth.draw(groups, folder)]}}


def _contents(panel) -> str:
    """Everything a panel's plots show; records by the hash that their scores carry."""
    runs = [(run.config, run.scores.get("sha256")) for point in panel.points for run in point.runs]
    return repr([(point.label, point.values, point.timings) for point in panel.points]) + repr(runs)


def _draw_panel(folder: Path, panel, looks: dict) -> list[str]:
    from .plots import along_output, costs, curves, plans
    from .plots.style import styled

    with styled():
        return [path.name for part in (curves, plans, costs, along_output) for path in part.draw(panel, folder, looks)]
