"""Only what was made alike is set side by side: nothing vanishes, nothing is paired silently, seeds get no interval."""

from __future__ import annotations

from dataclasses import replace

import pytest
from reporting_fixtures import add_floor, add_run, add_timing
from results_fixtures import metric as scored
from results_fixtures import record, run_config

from harness.reporting.claims.claims import judge_panels
from harness.reporting.overview import overview
from harness.reporting.panels import merge_seeds, panels
from harness.reporting.points import Point, Timing, Value, load_points
from harness.reporting.tables.equal_speed import interpolated
from harness.reporting.tables.paper_tables import build
from harness.reporting.words import FLAGGED, panel_title, with_interval
from harness.results import Store
from harness.results.files import read_json

ARTEFACT = {"file": "a.json", "sha256": "0", "kind": "calibrated", "method": "calm", "task": "e2e", "target": None}


def runs_of(root, *methods: dict, named: int = -1) -> list[Point]:
    """The points of a folder with one run a method, of which the suite names one."""
    with Store(root) as store:
        for i, method in enumerate(methods):
            run = store.open_run(f"run{i}", run_config(f"run{i}", 2, method={"variant": "", "params": {}} | method))
            run.append([record(0, 0), record(1, 0)])
            run.finish({"e2e_bleu": scored(50.0, 1.0), "speedup_layers": scored(2.0)})
        store.write_suite("quick", "h", [f"run{range(len(methods))[named]}"])
    return load_points(root)


def fixed_exit(layers: int, **more) -> dict:
    return {"name": "multi_layer", "params": {"exit_layers": layers}, "target": None, **more}


@pytest.mark.parametrize("recorded", [True, False])
def test_a_run_with_another_number_stays_beside_the_newer_one(tmp_path, recorded):
    given = [{"given": {"exit_layers": n}} if recorded else {} for n in (3, 6)]
    points = runs_of(tmp_path, fixed_exit(3, **given[0]), fixed_exit(6, **given[1]))
    assert [p.params["exit_layers"] for p in points] == [3, 6]
    assert "multi_layer exit_layers=3" in overview(tmp_path)


def test_a_given_number_is_no_searched_one_at_a_target_too(tmp_path):
    def calm(interval: int, threshold: float) -> dict:
        params = {"exit_interval": interval, "threshold": threshold}
        return {"name": "calm", "params": params, "target": 2, "given": {"exit_interval": interval}}

    points = runs_of(tmp_path, calm(1, 0.4), calm(2, 0.5), calm(2, 0.6))
    kept = [(p.params["exit_interval"], p.params["threshold"]) for p in points]
    assert kept == [(1, 0.4), (2, 0.6)], "only the one whose threshold was searched anew is replaced"


@pytest.mark.parametrize(
    "changed", [{"data_hash": "e" * 64}, {"limit": 2}, {"max_new_tokens": 6}, {"max_prompt_tokens": 9}]
)
def test_runs_on_other_data_or_limits_stay_beside_the_newer_ones(tmp_path, changed):
    with Store(tmp_path) as store:
        for i, config in enumerate([{}, changed]):
            run = store.open_run(f"run{i}", run_config(f"run{i}", 2, **config))
            run.append([record(0, 0), record(1, 0)])
            run.finish({"e2e_bleu": scored(50.0 + i, 1.0), "speedup_layers": scored(1.0)})
        store.write_suite("quick", "h", ["run1"])
    points = load_points(tmp_path)
    assert sorted(p.values["e2e_bleu"].value for p in points) == [50, 51]
    assert len(panels(points)) == 2


def test_another_promise_is_another_run_and_the_same_made_anew_is_not(tmp_path):
    def calm(threshold: float, delta: float, sha256: str) -> dict:
        tuned = ARTEFACT | {"guarantee": "textual", "delta": delta, "epsilon": 0.05, "sha256": sha256}
        return {"name": "calm", "params": {"threshold": threshold}, "target": None, "given": {}, "tuned": tuned}

    points = runs_of(tmp_path, calm(0.9, 0.05, "1"), calm(0.8, 0.1, "2"), calm(0.7, 0.1, "3"))
    assert [p.params["threshold"] for p in points] == [0.9, 0.7]


def test_runs_from_before_parameters_were_recorded_as_given_are_not_replaced_by_a_guess(tmp_path):
    points = runs_of(tmp_path, fixed_exit(3), fixed_exit(6, given={"exit_layers": 6}))
    assert len(points) == 2


def test_a_plugins_searched_parameter_is_found_anew_for_each_seed_whatever_its_name():
    def cut(value: float, seed: int, **given) -> Point:
        config = run_config("r", 2, seed=seed, method={"name": "mine", "params": {"cut": value}, "target": 2, **given})
        return Point(config, {"e2e_bleu": Value(50.0 + seed)})

    assert len(merge_seeds([cut(0.1, 0, given={}), cut(0.2, 1, given={})])) == 1
    assert len(merge_seeds([cut(0.1, 0), cut(0.2, 1)])) == 2


# --- seeds ------------------------------------------------------------------------------------------------------------


def test_several_seeds_have_a_range_and_no_invented_interval():
    def run(quality: float, seed: int) -> Point:
        method = {"name": "unified", "target": 2, "params": {}}
        return Point(
            run_config("r", 2, seed=seed, method=method), {"e2e_bleu": Value(quality, quality - 1, quality + 1)}
        )

    (point,) = merge_seeds([run(10.0, 0), run(14.0, 1)])
    assert point.get("e2e_bleu") == Value(12.0, seeds=(10.0, 14.0))
    assert with_interval(point.get("e2e_bleu"), "e2e_bleu") == "12.0 (seeds 10.0–14.0)"
    assert merge_seeds([run(10.0, 0)])[0].get("e2e_bleu") == Value(10.0, 9.0, 11.0)
    assert interpolated([(point, 1.0)], "e2e_bleu").seeds == (10.0, 14.0), "nor is the range lost at equal speed"


def test_every_seed_of_full_must_beat_the_floor(tmp_path):
    with Store(tmp_path) as store:
        for seed in (0, 1):
            add_run(store, "e2e", "full", None, seed)
            add_run(store, "e2e", "skipdecode", 2, seed)
        add_floor(store, "e2e", 65.0 / 66.0)  # full has 66.0 with an interval from 64.2
    reasons = {j.verdict.reason for j in judge_panels(panels(load_points(tmp_path)))}
    assert any("does not clearly beat the floor" in reason for reason in reasons)


# --- training ---------------------------------------------------------------------------------------------------------


def trained(steps: int, rate: float = 7e-4, **more) -> dict:
    recipe = {"steps": steps, "batch_size": 16, "learning_rate": rate}
    return {"training": {"recipe": recipe, "steps": steps, "precision": "float32"} | more}


@pytest.mark.parametrize("other", [trained(300), trained(80, 1e-3), trained(80, precision="bfloat16")])
def test_runs_trained_otherwise_are_not_paired(tmp_path, other):
    with Store(tmp_path) as store:
        add_run(store, "e2e", "full", None, **trained(80))
        add_run(store, "e2e", "calm", 2, **other)
        add_run(store, "e2e", "skipdecode", 2, **trained(80))
        add_floor(store, "e2e")
    groups = panels(load_points(tmp_path))
    assert sorted(sorted(p.method for p in g.methods) for g in groups) == [["calm"], ["full", "skipdecode"]]
    assert len({panel_title(g.config) for g in groups}) == 2 == len({g.slug for g in groups})
    reasons = {j.claim.id: j.verdict.reason for j in judge_panels(groups)}
    assert "there is no run of calm" in reasons["skipdecode-beats-calm"]
    assert "not comparable" in reasons["calm-fades"] and "training" in reasons["calm-fades"]
    assert "training" in overview(tmp_path)


def test_checkpoints_that_were_not_trained_here_stand_beside_those_that_were(tmp_path):
    with Store(tmp_path) as store:
        add_run(store, "e2e", "full", None, **trained(80))
        add_run(store, "e2e", "unified", 2, checkpoint="base", **trained(1800))
    (group,) = panels(load_points(tmp_path))
    assert sorted(p.checkpoint for p in group.methods) == ["base", "own"]


# --- machines ---------------------------------------------------------------------------------------------------------


def group(store, name: str, methods, environment: dict, size: int = 1, device: str = "cpu") -> None:
    add_timing(store, "e2e", size, methods)
    (path,) = store.root.glob(f"timing/e2e-b{size}.json")
    document = read_json(path)
    path.unlink()
    facts = {k: v for k, v in document.items() if k not in ("sha256", "schema", "group_id")}
    store.write_timing(name, {**facts, "device": device, "environment": environment})


def test_timings_of_other_machines_are_neither_paired_nor_shown_without_a_word(tmp_path):
    jobs = [("full", None), ("calm", 2), ("skipdecode", 2)]
    with Store(tmp_path) as store:
        for method, target in [*jobs, ("unified", 2)]:
            add_run(store, "e2e", method, target)
        add_floor(store, "e2e")
        group(store, "one", jobs, {"cpu": "Fast"})
        group(store, "two", [("unified", 2)], {"cpu": "Slow"})
    (panel,) = panels(load_points(tmp_path))
    reasons = {j.claim.id: j.verdict.reason for j in judge_panels([panel])}
    assert "on one machine" in reasons["unified-closer-skipdecode"]
    marked = {p.method for p in panel.methods if p.get("speedup_wall").flag}
    assert marked == {"unified"}
    table = next(t for t in build([panel]) if t.id.endswith("_cost"))
    assert f"{FLAGGED} timed on another machine (Slow) than the rest (Fast)" in table.footnote


def test_a_gpu_is_known_by_its_own_name(tmp_path):
    jobs = [("full", None), ("calm", 2)]
    with Store(tmp_path) as store:
        for method, target in jobs:
            add_run(store, "e2e", method, target)
        group(store, "one", jobs, {"cpu": "C", "gpus": ["A"]}, device="cuda")
        group(store, "two", jobs, {"cpu": "C", "gpus": ["B"]}, size=8, device="cuda")
    points = load_points(tmp_path)
    assert {t.setting["machine"] for p in points for t in p.timings} == {"A", "B"}


def test_what_the_cost_model_cannot_say_is_a_dash_with_its_reason(tmp_path):
    """Files from before have numbers there, which mean nothing of a method that guesses."""
    with Store(tmp_path) as store:
        for method in ("full", "skipdecode"):
            add_run(store, "e2e", method, None if method == "full" else 2)
        add_timing(store, "e2e", 1, [("full", None), ("skipdecode", 2)])
        document = read_json(tmp_path / "timing" / "e2e-b1.json")
        document["methods"][1]["values"]["acceptance_rate"] = {"value": 0.9}
        kept = {k: v for k, v in document.items() if k not in ("sha256", "schema", "group_id")}
        store.write_timing("e2e-b1", kept)
    (panel,) = panels(load_points(tmp_path))
    table = next(t for t in build([panel]) if t.id.endswith("_cost"))
    heads = [c.heading for c in table.columns]
    shown = [row[heads.index("overhead (ms/token)")].shown for row in table.rows]
    assert shown == ["0.400", "–"] and "– the cost model holds for steps of one pass" in table.footnote


# --- shorter outputs --------------------------------------------------------------------------------------------------


def said(method: str, tokens: float, speed: float = 2.0) -> Point:
    config = run_config("r", 4, method={"name": method, "params": {}, "target": None if method == "full" else 2})
    timing = Timing({"batch_size": 1}, {"speedup_total": Value(speed, 1.9, 2.1), "output_tokens_mean": Value(24.0)})
    return Point(config, {"output_tokens": Value(tokens), "e2e_bleu": Value(50.0)}, (timing,))


def test_a_method_that_says_less_is_flagged_beside_its_end_to_end_speed_up():
    (panel,) = panels([said("full", 20.0), said("unified", 17.0), said("skipdecode", 19.0)])
    flags = {p.method: p.get("speedup_total").flag for p in panel.methods}
    assert flags["full"] is flags["skipdecode"] is None
    assert "17.0 tokens a test output against 20.0 of full" in flags["unified"]
    tables = {t.id.rpartition("_")[2]: t for t in build([panel])}
    heads = [c.heading for c in tables["cost"].columns]
    assert heads[heads.index("end-to-end speed-up") + 1] == "output tokens"
    lengths = {row[0].shown: row[heads.index("output tokens")].shown for row in tables["cost"].rows}
    assert lengths == {"full": "20.0", "unified": f"17.0{FLAGGED}", "skipdecode": "19.0"}
    for table in (tables["cost"], tables["quality"]):
        assert f"{FLAGGED} shorter output" in table.footnote


def test_shorter_is_against_the_same_kind_of_checkpoint():
    base = replace(said("unified", 17.0), config=said("unified", 17.0).config | {"checkpoint": "base"})
    whole = replace(said("full", 17.0), config=said("full", 17.0).config | {"checkpoint": "base"})
    (panel,) = panels([said("full", 30.0), whole, base])
    assert not any(p.get("speedup_total").flag for p in panel.methods)
