"""Tables: the right numbers, in three formats, with dashes for what is missing and nothing hidden."""

from __future__ import annotations

import csv
import io
import re
import subprocess
import sys

import pytest
from reporting_fixtures import QUALITY, TARGETS, add_run, shared_report
from results_fixtures import metric as scored
from results_fixtures import record, run_config

from harness.reporting.panels import _named, merge_seeds, panels
from harness.reporting.plots.curves import pareto
from harness.reporting.points import Point, Value, load_points
from harness.reporting.tables.equal_speed import at_speed, interpolated
from harness.reporting.tables.paper_tables import build
from harness.reporting.tables.papers import published
from harness.reporting.tables.table import Cell, Column, Table, mark_best, tex
from harness.reporting.words import number, with_interval
from harness.results import Store


@pytest.fixture(scope="module")
def groups():
    return panels(load_points(shared_report()))


@pytest.fixture(scope="module")
def tables(groups) -> dict[str, Table]:
    return {table.id: table for table in build(groups)}


def cells(table: Table) -> list[dict[str, str]]:
    return [{c.heading: cell.shown for c, cell in zip(table.columns, row, strict=True)} for row in table.rows]


def test_every_method_and_target_has_its_row_however_bad(tables):
    rows = cells(tables["e2e_mini-opt_stand-in_quality"])
    assert [r["method"] for r in rows].count("full") == 1
    found = {(r["method"], r["target"]) for r in rows}
    assert {(m, f"{t}x") for m in QUALITY for t in TARGETS} <= found
    worst = next(r for r in rows if (r["method"], r["target"]) == ("random_skip", "6x"))
    assert worst["E2E BLEU"].startswith("3.3")
    assert rows[-1]["method"] == "floor: most frequent reference" and rows[-1]["ROUGE-L"] == "–"


def test_stand_in_data_is_named_in_every_title(tables):
    for name, table in tables.items():
        if "stand-in" in name:
            assert "STAND-IN DATA" in table.title and "n = 48" in table.title
    assert "STAND-IN" not in tables["translation-de-en_mini-opt_quality"].title


def test_the_quality_table_says_which_published_numbers_its_own_compare_with(tmp_path, tables):
    with Store(tmp_path) as store:
        add_run(store, "e2e", "full", None, comparable="BLEU equals the challenge's;\nROUGE-L is 5 % off.")
    (table,) = [t for t in build(panels(load_points(tmp_path))) if t.id.endswith("_quality")]
    told = "Beside published numbers: BLEU equals the challenge's; ROUGE-L is 5 % off."
    assert told in table.markdown() and told.replace("%", r"\%") in table.latex()
    assert not any("Beside published" in table.footnote for table in tables.values())  # whose tasks say nothing


def test_the_three_formats_hold_the_same_rows(tables):
    for table in tables.values():
        parsed = list(csv.reader(io.StringIO(table.csv())))
        assert len(parsed) == 1 + len(table.rows) and len({len(row) for row in parsed}) == 1
        assert table.markdown().count("\n|") == len(table.rows) + 2
        assert table.latex().count(r" \\") == len(table.rows) + 1
        assert r"\toprule" in table.latex() and table.latex().count("{") == table.latex().count("}")


def test_best_is_bold_among_the_methods_of_one_target(tables):
    table = tables["translation-de-en_mini-opt_quality"]
    bleu = [c.heading for c in table.columns].index("BLEU")
    bold = [row[0].shown for row in table.rows if row[bleu].best]
    assert bold == ["unified"] * 3
    assert "**30.4" in table.markdown() and r"\textbf{30.4" in table.latex()


def test_ties_and_lone_rows_are_not_bold():
    row = [Cell(value=Value(1.0), name="bleu")]
    assert not any(cell.best for r in mark_best([row, row], ["a", "a"]) for cell in r)
    assert not mark_best([row], ["a"])[0][0].best
    low = [Cell(value=Value(0.5), name="loss")], [Cell(value=Value(0.7), name="loss")]
    assert [r[0].best for r in mark_best(list(low), ["a", "a"])] == [True, False]


def test_cost_rows_go_batch_by_batch_and_an_overhead_has_no_best(tables):
    table = tables["e2e_mini-opt_stand-in_cost"]
    rows = cells(table)
    sizes = [r["batch"] for r in rows if r["batch"] != "–"]
    assert sizes == sorted(sizes, key=int) and set(sizes) == {"1", "8"}
    assert [r["method"] for r in rows if r["batch"] == "8"][0] == "full"
    place = [c.heading for c in table.columns].index("overhead (ms/token)")
    assert any(row[place].value for row in table.rows) and not any(row[place].best for row in table.rows)


def test_published_figures_stand_beside_ours(tables):
    rows = cells(tables["translation-de-en_mini-opt_unified-main"])
    by = {(r["method"], r["target"]): r for r in rows}
    assert by["full", "–"]["paper: BLEU"] == "23.8"
    assert by["unified", "2x"]["paper: tokens/s, batch 8"] == "503"
    assert by["calm", "6x"]["paper: BLEU"] == "10.0"  # the paper's 5x
    assert by["unified", "4x"]["paper: BLEU"] == "–"
    assert "paper: BLEU" not in cells(tables["e2e_mini-opt_stand-in_unified-main"])[0], "the paper has no E2E"
    calm = cells(tables["translation-de-en_mini-opt_calm-main"])
    assert sum("paper" in r["method"] for r in calm) == 12
    assert next(r for r in calm if r["target"] == "4x")["confidence"] == "state"


def test_base_checkpoints_stand_beside_adaskips():
    points = [point("unified", 2, 40, checkpoint="base"), point("unified", 2, 50)]
    table = next(t for t in build(panels(points)) if t.id.endswith("_untuned"))
    rows = cells(table)
    assert rows[0]["method"] == "unified (base checkpoint)" and rows[0]["BLEU"].startswith("40.0")
    assert len(rows) == 1 + 24 and rows[1]["paper: GovReport ROUGE-L"] == "16.8"
    assert not any(t.id.endswith("_untuned") for t in build(panels(points[1:])))


def test_published_files_are_numbers():
    assert published("calm")[0]["avg_layers"] == 5.73 and published("adaskip")[0]["method"] == "full"
    assert published("unified_layer_skipping")[1]["tokens_per_s_bs2"] is None


def point(method: str, speed: float, quality: float, target: float = 2, **config) -> Point:
    run = {"task": "t", "metrics": ["bleu"], "checkpoint": "own", "seed": 0, "n": 10, "source": "local"}
    run |= {"method": {"name": method, "target": target, "params": config.pop("params", {})}}
    run |= {"model": {"name": "m", "num_layers": 12}, **config}
    return Point(run, {"speedup_layers": Value(speed), "bleu": Value(quality, quality - 1, quality + 1)})


def test_equal_speed_interpolates_but_never_extrapolates():
    curve = [point("a", 2.0, 60), point("a", 4.0, 40)]
    assert [w for _, w in at_speed(curve, 2.05)] == [1.0]
    assert interpolated(at_speed(curve, 3.0), "bleu") == Value(50.0, 49.0, 51.0)
    assert interpolated(at_speed(curve, 2.5), "bleu").value == 55.0
    assert at_speed(curve, 1.5) is None and at_speed(curve, 4.5) is None and at_speed([], 2) is None


def test_pareto_front():
    spots = [(1, 5), (2, 5), (2, 4), (3, 1), (2.5, 0.5)]
    assert pareto(spots) == {(2, 5), (3, 1)}


def test_seeds_are_averaged_with_their_range_beside(groups):
    merged = [p for p in groups[0].points if p.method == "random_skip"]
    assert len(merged) == 3 and len(merged[0].runs) == 3
    runs = [point("a", 2, 10.0), point("a", 2, 14.0, seed=1)]
    value = merge_seeds(runs)[0].get("bleu")
    assert value == Value(12.0, seeds=(10.0, 14.0)), "the mean of two intervals is no interval of anything"
    assert with_interval(value, "bleu") == "12.0 (seeds 10.0–14.0)"


def test_random_choices_of_a_control_are_averaged_too():
    runs = [point("random_skip", 2, q, params={"skip_seed": s, "like": "unified"}) for s, q in enumerate((10.0, 14.0))]
    assert [p.get("bleu").value for p in merge_seeds(runs)] == [12.0]
    sweep = [point("calm", 2, 50, None, params={"threshold": t}) for t in (0.5, 0.9)]
    assert len(merge_seeds(sweep)) == 2, "thresholds that nobody searched are two settings"


def test_runs_of_one_seed_are_never_merged():
    runs = [point("a", 2, 10.0, training={"steps": s}) for s in (1, 2)]
    assert [p.get("bleu").value for p in merge_seeds(runs)] == [10.0, 10.0]
    choices = [point("a", 2, 10.0, params={"skip_seed": s}, seed=1) for s in (1, 1, 2)]
    assert len(merge_seeds(choices)) == 3 and len(merge_seeds(choices[1:])) == 1


def test_a_variant_that_the_suite_does_not_name_stays(tmp_path):
    with Store(tmp_path) as store:
        for confidence in ("softmax", "state"):
            facts = {"name": "calm", "variant": "", "params": {"confidence": confidence}, "target": 2}
            run = store.open_run(confidence, run_config(confidence, 2, method=facts))
            run.append([record(0, 0), record(1, 0)])
            run.finish({"e2e_bleu": scored(50.0, 1.0), "speedup_layers": scored(2.0)})
        store.write_suite("quick", "h", ["state"])
    assert {p.params["confidence"] for p in load_points(tmp_path)} == {"softmax", "state"}


def test_a_table_over_all_panels_names_the_data_and_compares_within_a_panel():
    points = []
    for source, quality in (("local", 60.0), ("stand-in", 80.0)):
        points += [point("full", 1, quality, None, source=source)]
        points += [point("skipdecode", 2, quality, source=source, params={"horizon": h}) for h in ("a", "b")]
        points[-1].values["bleu"] = Value(quality - 1)
    table = {t.id: t for t in build(panels(points))}["skipdecode-main"]
    heads = [c.heading for c in table.columns]
    bold = [row[heads.index("data")].shown for row in table.rows if row[heads.index("BLEU")].best]
    assert sorted(bold) == ["STAND-IN DATA (made up, not the real task)", "local data"]


def test_a_run_that_the_suite_has_replaced_is_left_out(tmp_path):
    with Store(tmp_path) as store:
        for threshold in (0.4, 0.5):  # two ids of one visible setting
            add_run(store, "e2e", "calm", 2, threshold=threshold)
        assert len(load_points(tmp_path)) == 2
        store.write_suite("quick", "h", ["e2e-calm-2-0-0.5"])
    assert [p.params["threshold"] for p in load_points(tmp_path)] == [0.5]


def test_variants_of_a_method_get_curves_of_their_own():
    kinds = [
        point("calm", 2, 50, params={"confidence": c, "threshold": t}) for c, t in (("state", 0.9), ("softmax", 1))
    ]
    assert [p.label for p in _named(kinds)] == ["calm confidence=state", "calm confidence=softmax"]
    base = [point("unified", 2, 50), point("unified", 2, 40, checkpoint="base")]
    assert [p.label for p in _named(base)] == ["unified", "unified (base checkpoint)"]


def test_missing_numbers_are_dashes():
    assert number(None, "bleu") == "–" and with_interval(Value(), "bleu") == "–"
    assert scored(None)["low"] is None
    table = Table("t", "T", [Column("a", "bleu")], [[Cell(value=Value(None), name="bleu")]])
    assert "| – |" in table.markdown() and "-- " in table.latex() and table.csv().splitlines()[1] == ",,"


def test_flagged_numbers_are_marked_and_the_mark_is_explained():
    busy = Value(25.1, 20.0, 30.0, flag="busy machine: measure again")
    cells = [Cell(value=busy, name="speedup_wall")], [Cell(value=Value(2.0), name="speedup_wall")]
    table = Table("t", "t", [Column("speed-up", "speedup_wall")], cells, "A note.")
    assert "| 25.10† [20.00, 30.00] |" in table.markdown() and "| 2.00 |" in table.markdown()
    assert "A note. † busy machine: measure again." in table.markdown()
    assert r"$\dagger$ busy machine" in table.latex()


def test_latex_and_markdown_escape_what_they_would_obey():
    assert tex("a_b & 5% {x} \\ [1] ~ ^ #$") == (
        r"a\_b \& 5\% \{x\} \textbackslash{} {[}1{]} \textasciitilde{} \textasciicircum{} \#\$"
    )
    table = Table("t", "T", [Column("m")], [[Cell("a|b\nc")]])
    assert "| a\\|b c |" in table.markdown()


def test_this_room_imports_neither_torch_nor_matplotlib():
    code = (
        "import sys, harness.reporting; sys.exit(bool({'torch', 'matplotlib', 'pandas', 'scipy'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_latex_has_no_bare_special_characters(tables):
    for table in tables.values():
        body = table.latex().split("{table}", 1)[1]
        assert not re.search(r"(?<!\\)[_#$](?![a-z])", re.sub(r"\$(\\[a-z]+|-)\$", "", body))
