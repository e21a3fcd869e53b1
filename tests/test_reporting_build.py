"""The report as a whole: everything is made once, anew only when something changed, always the same bytes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.figure import Figure
from reporting_fixtures import N, add_floor, add_run, shared_report

from harness.errors import SkipbenchError, UsageError
from harness.reporting import build_report
from harness.reporting.build import STAMP
from harness.reporting.panels import Panel, panels
from harness.reporting.plots.along_output import _known_loss
from harness.reporting.plots.curves import _floor
from harness.reporting.plots.plans import _plan, layer_shares
from harness.reporting.points import Point, Value, load_points
from harness.results import RunFiles, Store

PLOTS = {
    *("achieved", "batch", "exits", "kv", "kv-steps", "loss", "overhead", "plans", "throughput"),
    *("speed-quality_layers", "speed-quality_wall"),
}


@pytest.fixture(scope="module")
def folder() -> Path:
    return shared_report()


def snapshot(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for kind in ("tables", "plots") for p in (root / kind).iterdir()}


def test_every_plot_is_there_as_png_and_svg(folder):
    names = {p.name for p in (folder / "plots").iterdir()}
    panels = ("e2e_mini-opt_stand-in", "translation-de-en_mini-opt")
    assert names == {f"{panel}_{plot}.{kind}" for panel in panels for plot in PLOTS for kind in ("png", "svg")}
    for path in (folder / "plots").glob("*.svg"):
        assert b"dc:date" not in path.read_bytes()


def test_unchanged_results_are_not_drawn_again(folder):
    code = (
        "import sys\n"
        "from harness.reporting import build_report\n"
        f"files = build_report({str(folder)!r})\n"
        "assert len(files) > 30 and all(f.is_file() for f in files)\n"
        "assert not {'matplotlib', 'pandas', 'scipy', 'torch'} & set(sys.modules)"
    )
    before = {p: p.stat().st_mtime_ns for p in folder.rglob("*") if p.is_file()}
    subprocess.run([sys.executable, "-c", code], check=True)
    assert {p: p.stat().st_mtime_ns for p in folder.rglob("*") if p.is_file()} == before


def test_a_deleted_plot_comes_back_and_a_new_run_changes_the_tables(tmp_path):
    with Store(tmp_path) as store:
        add_run(store, "e2e", "full", None)
        add_run(store, "e2e", "unified", 2)
    files = build_report(tmp_path)
    plot = next(f for f in files if f.suffix == ".svg")
    plot.unlink()
    mine = tmp_path / "plots" / "mine.png"
    mine.write_bytes(b"a picture of the user's own")
    build_report(tmp_path)
    assert plot.is_file()
    before = snapshot(tmp_path)
    build_report(tmp_path, only_if_changed=False)
    assert snapshot(tmp_path) == before, "the same results give the same bytes"
    with Store(tmp_path) as store:
        add_run(store, "e2e", "unified", 4)
    build_report(tmp_path)
    assert snapshot(tmp_path) != before and mine.is_file()


def test_plots_that_no_longer_apply_are_removed_and_other_tasks_left_alone(tmp_path):
    with Store(tmp_path) as store:
        add_run(store, "translation:de-en", "full", None)
        run_id = add_run(store, "e2e", "calm", 2)
        add_run(store, "e2e", "full", None)
    assert any("exits" in f.name for f in build_report(tmp_path))
    with Store(tmp_path) as store:
        store.forget(run_id)
    others = {p: p.stat().st_mtime_ns for p in (tmp_path / "plots").glob("translation*")}
    build_report(tmp_path)
    assert others and {p: p.stat().st_mtime_ns for p in others} == others
    assert not any("exits" in p.name for p in (tmp_path / "plots").iterdir())


def test_layer_shares_of_a_plan_and_of_an_early_exit(folder):
    points = panels(load_points(folder))[0].points
    by = {(p.method, p.target): p for p in points}
    shares = layer_shares(by["multi_layer", 4])
    assert shares[:3].min() == 1 and shares[3:].max() == 0
    calm = by["calm", 2]
    rows = [r["layers_needed"] for r in calm.records()]
    first = np.array([row[0] for row in rows])
    assert len(rows) == N
    assert np.allclose(layer_shares(calm)[:, 0], [(first > layer).mean() for layer in range(12)])


@pytest.mark.parametrize(("floor", "drawn"), [(75.0, "line"), (17.0, "words"), (95.0, "line")])
def test_a_floor_far_below_does_not_flatten_the_curves(floor, drawn):
    axis = Figure().subplots()
    axis.plot([1, 2], [80, 92])
    low, high = axis.get_ylim()
    config = {"method": {"name": "floor", "variant": "title"}}
    _floor(axis, Panel("p", [Point(config, {"bleu": Value(floor)})]), "bleu")
    told = [text.get_text() for text in axis.texts]
    assert told == (["↓ floor: title, 17.0"] if drawn == "words" else [])
    assert (axis.get_ylim() == (low, high)) == (drawn == "words")


@pytest.mark.parametrize(("layers", "ticks"), [(1, [0]), (4, [0, 1, 2, 3]), (12, [0, 3, 6, 9]), (32, [0, 8, 16, 24])])
def test_layers_are_numbered_evenly(layers, ticks):
    axis = Figure().subplots()
    plan = {"steps": [[0]] * 3}
    config = {"method": {"name": "mine"}, "model": {"num_layers": layers}, "plan": plan}
    _plan(axis, Point(config, {}), 3, 0)
    assert axis.get_yticks().tolist() == ticks and axis.texts[0].get_text() == "no target"


def test_loss_is_drawn_where_enough_references_reach():
    scores = {"loss_by_position": [2.0, 1.0, None, 9.0], "tokens_by_position": [100, 5, 100, 4]}
    point = Point({}, {}, runs=(RunFiles(Path(), {}, scores),))
    assert _known_loss(point) == [(1, 2.0), (2, 1.0)]
    scores.pop("tokens_by_position")
    assert _known_loss(point) == [(1, 2.0), (2, 1.0), (4, 9.0)], "results from before they were counted"


@pytest.mark.parametrize("stamp", ["{", "{}", "[]", '{"files": 3, "plots": []}', '{"files": ["../kept"], "plots": {}}'])
def test_a_broken_stamp_is_as_good_as_none(tmp_path, stamp):
    root, kept = tmp_path / "out", tmp_path / "kept"
    kept.write_text("not the report's")
    with Store(root) as store:
        add_floor(store, "e2e")
    made = build_report(root)
    (root / STAMP).write_text(stamp)
    assert build_report(root) == made
    assert kept.exists() and json.loads((root / STAMP).read_text())["files"]


def test_an_unfinished_folder_still_reports(tmp_path):
    """Only `full` is done, and nothing was timed: tables yes, curves with one point, no exits."""
    with Store(tmp_path) as store:
        add_run(store, "e2e", "full", None)
        store.open_run("unfinished", {"n": 3, "task": "e2e", "method": {"name": "x"}})
    names = {f.name for f in build_report(tmp_path)}
    assert "e2e_mini-opt_stand-in_quality.md" in names


def test_a_folder_whose_every_job_failed_says_so(tmp_path):
    with Store(tmp_path) as store:
        store.write_suite("quick", "h", ["a"])
        store.fail("a", {}, "RuntimeError: out of luck")
    build_report(tmp_path)
    assert "a failed: RuntimeError: out of luck" in (tmp_path / "report.html").read_text(encoding="utf-8")


def test_no_results_and_corrupt_results_are_named(tmp_path):
    with pytest.raises(UsageError, match="holds no results"):
        build_report(tmp_path)
    with Store(tmp_path) as store:
        run_id = add_run(store, "e2e", "full", None)
    (tmp_path / "runs" / run_id / "scores.json").write_text("{}}")
    with pytest.raises(SkipbenchError, match=rf"{run_id}/scores\.json"):
        build_report(tmp_path)
