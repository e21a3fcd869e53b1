"""Pictures: one look a method in a whole folder; figures of the clock that are not to be believed look like it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.figure import Figure
from reporting_fixtures import QUALITY, N, add_floor, add_run, add_timing
from results_fixtures import run_config

from harness.reporting import build, overview
from harness.reporting.panels import Panel, panels
from harness.reporting.plots import along_output, costs, curves, plans, style
from harness.reporting.plots.doubts import ONE_ROUND, clock_value, doubts
from harness.reporting.plots.looks import COLOURS, KNOWN, MARKERS, assign_looks
from harness.reporting.points import Point, Timing, Value, load_points
from harness.reporting.words import merged_flags, model_title, number
from harness.results import Store

BUSY = "busy machine: a processor was there for {} % of the time only; measure again"
NAMES = st.sets(st.sampled_from(KNOWN) | st.from_regex(r"[a-z_]{1,12}", fullmatch=True), max_size=30)


@given(NAMES)
def test_every_method_has_a_pair_of_its_own_and_built_ins_keep_theirs(names):
    looks = assign_looks(names)
    assert len({(look.color, look.marker) for look in looks.values()}) == len(names)
    assert len({(look.color, look.hatch) for look in looks.values()}) == len(names)
    assert len({(look.color, repr(look.linestyle)) for look in looks.values()}) == len(names)
    for place, name in enumerate(KNOWN):
        if name in looks:
            assert (looks[name].color, looks[name].marker) == (COLOURS[place], MARKERS[place])
    if len(names) <= len(COLOURS):
        assert len({look.color for look in looks.values()}) == len(names)
    assert assign_looks(sorted(names, reverse=True)) == looks


def test_variants_share_colour_and_marker_and_differ_in_line_and_hatch():
    looks = assign_looks(["calm confidence=state", "calm confidence=softmax", "mine"])
    first, second = looks["calm confidence=softmax"], looks["calm confidence=state"]
    assert (first.color, first.marker) == (second.color, second.marker)
    assert first.linestyle != second.linestyle and first.hatch != second.hatch
    assert looks["mine"].color != first.color


def test_all_pictures_of_a_folder_get_the_same_looks(tmp_path, monkeypatch):
    for name in ("mine", "yours"):
        monkeypatch.setitem(QUALITY, name, 0.9)
    with Store(tmp_path) as store:
        for task, methods in (("e2e", ("full", "mine")), ("translation:de-en", ("full", "skipdecode", "yours"))):
            for method in methods:
                add_run(store, task, method, None if method == "full" else 2)
    given_looks = []
    for part in (curves, costs, along_output):
        monkeypatch.setattr(part, "draw", lambda panel, folder, looks: given_looks.append(looks) or [])
    build._draw(tmp_path / "plots", panels(load_points(tmp_path)), {})
    assert len(given_looks) == 6 and all(looks == given_looks[0] for looks in given_looks)
    assert sorted(given_looks[0]) == ["mine", "skipdecode", "yours"]


def timed(method: str, target: float | None, speed: Value, **values: Value) -> Point:
    config = run_config(n=N, method={"name": method, "target": target, "params": {}}, metrics=["e2e_bleu"])
    timing = Timing({"batch_size": 1}, {"speedup_wall": speed, **values})
    return Point(config, {"e2e_bleu": Value(50.0, 48.0, 52.0), "speedup_layers": Value(2.0)}, (timing,), (), method)


@pytest.fixture
def drawn(monkeypatch) -> dict[str, Figure]:
    """Figures as they are saved, by name."""
    found = {}
    for module in (curves, costs, style):
        monkeypatch.setattr(module, "save", lambda fig, folder, name: found.update({name: fig}) or [])
    return found


def texts(fig: Figure) -> str:
    legends = [text for legend in fig.legends for text in legend.get_texts()]
    return " ".join(" ".join(text.get_text() for text in [*fig.texts, *legends]).split())


def test_flagged_one_round_and_impossible_points_are_shown_as_such(tmp_path, drawn):
    flagged = Value(2.5, None, None, flag=BUSY.format(30))
    slow = Value(4.0, flag=BUSY.format(26))
    doubtful = {"speedup_bound": Value(2.0), "overhead_ms": Value(-0.5), "decode_ms_per_token": slow}
    sound = {"speedup_bound": Value(1.8), "overhead_ms": Value(0.1, 0.0, 0.2)}
    points = [timed("unified", 2.0, flagged, **doubtful), timed("calm", 2.0, Value(1.5, 1.4, 1.6), **sound)]
    panel, looks = Panel("p", points), assign_looks(["unified", "calm"])
    curves.draw(panel, tmp_path, looks)
    costs.draw(panel, tmp_path, looks)
    wall = drawn["p_speed-quality_wall"]
    axis = wall.axes[0]
    assert axis.get_title() == "batch size 1 †" and [t.get_text() for t in axis.texts] == ["!"]
    assert BUSY.format(30) in texts(wall) and ONE_ROUND in texts(wall) and curves.BEYOND in texts(wall)
    assert curves.BOUND_NOTE in texts(wall) and curves.BOUND in texts(wall)
    colours = {line.get_label(): line.get_color() for line in axis.lines}
    assert all(colours[name] == looks[name].color for name in ("calm", "unified")), "the legend is never pale"
    drawn_in = {line.get_color() for line in axis.lines if len(line.get_xdata())}
    assert style.pale(looks["unified"].color) in drawn_in and style.pale(looks["calm"].color) not in drawn_in
    ties = {tuple(map(float, line.get_xdata())) for line in axis.lines if line.get_linestyle() == ":"}
    assert {(2.5, 2.0), (1.5, 1.8)} <= ties
    layers = drawn["p_speed-quality_layers"]
    assert "†" not in texts(layers) and ONE_ROUND not in texts(layers) and "†" not in layers.axes[0].get_title()
    assert [axis.get_title() for axis in drawn["p_achieved"].axes] == ["by layers", "by the clock, batch size 1 †"]
    ticks = [text.get_text() for text in drawn["p_overhead"].axes[0].get_yticklabels()]
    assert ticks == ["unified 2x †", "calm 2x"], "an overhead is as doubtful as the time it comes from"
    bars = [patch.get_facecolor()[:3] for patch in drawn["p_overhead"].axes[0].patches]
    assert bars[0] == pytest.approx(style.pale(looks["unified"].color))
    assert bars[1] == pytest.approx(style.to_rgb(looks["calm"].color))


def test_the_picture_of_plans_does_not_say_that_they_ran(tmp_path, monkeypatch):
    found = {}
    monkeypatch.setattr(plans, "save", lambda fig, folder, name: found.update({name: fig}) or [])
    point = timed("unified", 2.0, Value(1.5))
    point.config["plan"] = {"prompt": [*range(12)], "steps": [[0, 5, 11]] * 8}
    plans.draw(Panel("p", [point]), tmp_path, assign_looks(["unified"]))
    words = texts(found["p_plans"])
    assert "planned or needed" in words and " ran " not in words and "a batch runs more" in words


def test_nothing_is_said_where_nothing_is_doubtful():
    point = timed("calm", 2.0, Value(1.5, 1.4, 1.6))
    assert doubts([clock_value(point, "speedup_wall", 1), clock_value(point, "tokens_per_s", 1)]) == []


def test_methods_without_a_target_have_axes_of_their_own_and_equal_lines_are_named(tmp_path, drawn):
    def held(method, target, *steps):
        point = timed(method, target, Value(1.0))
        return replace(point, timings=(replace(point.timings[0], kv_bytes_by_step=steps),))

    points = [held("full", None, 1, 2), held("calm", 2.0, 1, 2), held("unified", 2.0, 1, 1), held("mine", None, 1, 3)]
    along_output.draw(Panel("p", points), tmp_path, assign_looks(["calm", "unified", "mine"]))
    fig = drawn["p_kv-steps"]
    lines = {axis.get_title(): {line.get_label() for line in axis.lines} for axis in fig.axes}
    assert lines == {"no target": {"full", "mine"}, "target 2x": {"full", "calm", "unified"}}
    assert "target 2x: calm, full coincide" in texts(fig) and "no target:" not in texts(fig)


def test_flags_that_differ_in_a_number_are_one():
    assert merged_flags(BUSY.format(n) for n in (30, 29, 31)) == [BUSY.format("29–31")]
    assert merged_flags([BUSY.format(7), BUSY.format(7), "outputs {shorter}"]) == [BUSY.format(7), "outputs (shorter)"]


def test_small_numbers_are_not_none_and_sizes_are_written_one_way():
    assert [number(x, "memory_bytes_peak") for x in (0, 3e5, 6e5)] == ["0", "< 1", "1"]
    sizes = [model_title({"name": "m", "num_layers": 4, "params": p}) for p in (94_112, 100_096, 2_596_864, 135e6)]
    assert [s.split(", ")[1] for s in sizes] == [f"{x} parameters)" for x in ("94 k", "100 k", "2.6 M", "135 M")]


def test_the_overview_names_the_batch_the_floor_and_each_flag_once(tmp_path):
    with Store(tmp_path) as store:
        jobs = [("full", None), ("unified", 2)]
        for method, target in jobs:
            add_run(store, "e2e", method, target)
        for size in (4, 8):
            add_timing(store, "e2e", size, jobs)
    assert "wall-clock speed-up, batch 4" in overview(tmp_path) and "!" not in overview(tmp_path)
    with Store(tmp_path) as store:
        add_floor(store, "e2e")
    assert "does not clearly beat" not in overview(tmp_path)
    with Store(tmp_path) as store:
        store.forget("e2e-floor")
        add_floor(store, "e2e", share=1.1)
    text = overview(tmp_path)
    assert text.count("full (66.0) does not clearly beat the floor (most frequent reference: 72.6)") == 1
