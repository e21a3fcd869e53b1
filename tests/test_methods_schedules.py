"""The schedules against METHODS: tables, budgets by hand, brute force."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import load_method
from harness.errors import UsageError
from harness.method import Lengths

# N: sets at 2x, 3x, 4x, 5x as published
UNIFIED = {
    16: ([0, 2, 4, 6, 8, 10, 12, 15], [0, 4, 8, 12, 15], [0, 5, 10, 15], [0, 8, 15]),
    24: ([*range(0, 21, 2), 23], [*range(0, 19, 3), 23], [0, 4, 8, 12, 16, 23], [0, 8, 16, 23]),
    28: ([*range(0, 25, 2), 27], [*range(0, 22, 3), 27], [*range(0, 21, 4), 27], [0, 7, 14, 21, 27]),
    30: ([*range(0, 27, 2), 29], [*range(0, 25, 3), 29], [*range(0, 26, 5), 29], [0, 6, 12, 18, 24, 29]),
    32: ([*range(0, 29, 2), 31], [*range(0, 25, 3), 31], [*range(0, 25, 4), 31], [0, 6, 12, 18, 24, 31]),
    40: ([*range(0, 37, 2), 39], [*range(0, 34, 3), 39], [*range(0, 33, 4), 39], [*range(0, 31, 5), 39]),
}


@pytest.mark.parametrize("num_layers", UNIFIED)
def test_the_official_unified_sets_are_the_published_ones(num_layers):
    for target, expected in zip((2, 3, 4, 5), UNIFIED[num_layers], strict=True):
        method = load_method("unified", num_layers=num_layers, target=target)
        assert method.plan(3) == [tuple(expected)] * 3
        assert list(method.prompt_layers()) == list(range(num_layers))


@pytest.mark.parametrize(
    "num_layers, target, expected",
    [
        (12, 2, [0, 2, 4, 7, 9, 11]),  # 11/5 apart: 0, 2.2, 4.4, 6.6, 8.8, 11
        (12, 4, [0, 6, 11]),  # 5.5 rounds up
        (12, 10, [0, 11]),
        (30, 1.5, [0, 2, 3, 5, 6, 8, 9, 11, 12, 14, 15, 17, 18, 20, 21, 23, 24, 26, 27, 29]),
        (24, 5, [0, 6, 12, 17, 23]),  # 23/4 apart: 0, 5.75, 11.5, 17.25, 23
    ],
)
def test_balanced_unified_sets_by_hand(num_layers, target, expected):
    method = load_method("unified", num_layers=num_layers, target=target, selection="balanced")
    assert method.layers(1) == method.layers(50) == expected


def test_the_official_rule_says_so_when_it_keeps_too_few():
    with pytest.raises(UsageError, match="keeps 1 of 12 layers at 10x.*up to 6 or selection='balanced'"):
        load_method("unified", num_layers=12, target=10)


@given(n=st.integers(2, 60), target=st.floats(1, 30), selection=st.sampled_from(["official", "balanced"]))
def test_unified_keeps_the_ends_and_the_promised_number(n, target, selection):
    if target > n or (selection == "official" and int(n / target) < 2):
        return
    layers = load_method("unified", num_layers=n, target=target, selection=selection).layers(1)
    expected = int(n / target) if selection == "official" else min(n, max(2, int(n / target + 0.5)))
    assert layers == sorted(set(layers)) and layers[0] == 0 and layers[-1] == n - 1
    assert len(layers) == expected
    if selection == "balanced":
        gaps = [b - a for a, b in zip(layers, layers[1:], strict=False)]
        assert max(gaps) - min(gaps) <= 1


def test_one_unified_checkpoint_can_serve_several_targets():
    shared = [load_method("unified", 12, target=t, train_targets=[2, 4]).recipe(20) for t in (2, 3, 4)]
    assert shared[0] == shared[1] == shared[2] and shared[0]["objective"] == "plans"
    assert [plan["steps"] for plan in shared[0]["plans"]] == [[[0, 2, 4, 6, 8, 11]], [[0, 6, 11]]]
    own = load_method("unified", 12, target=2).recipe(20)
    assert own["objective"] == "plan" and own["steps"] == [[0, 2, 4, 6, 8, 11]] * 20
    with pytest.raises(UsageError, match="keeps 1 of 12"):
        load_method("unified", 12, target=2, train_targets=[2, 10])


# -- SkipDecode ------------------------------------------------------------------------------------------------------


def skipdecode(**parameters):
    return load_method("skipdecode", num_layers=12, **parameters)


def test_skipdecode_budgets_by_hand():
    method = skipdecode(min_layers=3, max_layers=9, prompt_size=40, max_length=100)
    budgets = {1: 9, 2: 9, 5: 9, 6: 8, 15: 8, 16: 7, 30: 6, 31: 6, 36: 5, 45: 5, 46: 4, 55: 4, 56: 3, 60: 3, 500: 3}
    assert {step: method.budget(step) for step in budgets} == budgets  # u = (step - 1) / 59
    assert method.layers(1) == [0, 4, 5, 6, 7, 8, 9, 10, 11]
    assert method.layers(500) == [0, 10, 11]
    assert skipdecode(min_layers=3, max_layers=3, warmup=3).layers(1) == [0, 1, 2]
    assert skipdecode(min_layers=2, max_layers=4, warmup=0, max_length=5).layers(9) == [10, 11]
    assert list(method.prompt_layers()) == list(range(12))
    short = skipdecode(min_layers=2, max_layers=8, prompt_size=7, max_length=7)  # no horizon at all
    assert [short.budget(t) for t in (1, 2, 3)] == [8, 2, 2]


def test_skipdecode_ablations_by_hand():
    power = skipdecode(min_layers=2, max_layers=10, max_length=5, decay="power")  # (1 - u)^2 = 1, 9/16, 1/4, 1/16, 0
    assert [power.budget(t) for t in range(1, 7)] == [10, 6, 4, 2, 2, 2]
    root = skipdecode(min_layers=2, max_layers=10, max_length=5, decay="power", gamma=0.5)
    assert [root.budget(t) for t in range(1, 6)] == [10, 9, 8, 6, 2]
    shallow = skipdecode(min_layers=2, max_layers=4, max_length=3, mode="terminate")
    assert [shallow.layers(t) for t in (1, 2, 3)] == [[0, 1, 2, 3], [0, 1, 2], [0, 1]]


def test_skipdecode_ramp_by_hand():
    ramp = skipdecode(schedule="ramp", skip_layers=4)  # 1 .. min(4, ceil(3c/512) + 1), c = step - 1
    skipped = {1: 1, 2: 2, 171: 2, 172: 3, 342: 3, 343: 4, 513: 4, 514: 4, 9999: 4}
    for step, count in skipped.items():
        assert ramp.layers(step) == [0, *range(1 + count, 12)], step
    assert skipdecode(schedule="ramp", skip_layers=0).layers(5) == list(range(12))
    assert skipdecode(schedule="ramp", skip_layers=1).layers(5) == [0, *range(2, 12)]
    with pytest.raises(UsageError, match="takes skip_layers, not a target"):
        skipdecode(schedule="ramp", target=2)


@given(
    ordered=st.lists(st.integers(0, 12), min_size=3, max_size=3).map(sorted),
    prompt=st.integers(0, 50),
    more=st.integers(0, 60),
    decay=st.sampled_from(["linear", "power"]),
    mode=st.sampled_from(["skip", "terminate"]),
)
@settings(derandomize=True)
def test_skipdecode_never_rises_and_keeps_its_counts(ordered, prompt, more, decay, mode):
    warmup, low, high = min(ordered[0], max(ordered[1], 1)), max(ordered[1], 1), max(ordered[2], 1)
    method = skipdecode(
        min_layers=low, max_layers=high, warmup=warmup, prompt_size=prompt, max_length=prompt + more, decay=decay,
        mode=mode,
    )  # fmt: skip
    plan = method.plan(more + 5)
    counts = [len(layers) for layers in plan]
    assert counts[0] == high and counts[more + 1 :] == [low] * 4
    assert counts == sorted(counts, reverse=True)
    assert all(set(late) <= set(early) for early, late in zip(plan, plan[1:], strict=False))  # a closed plan
    if mode == "skip":
        assert all(set(range(warmup)) <= set(layers) for layers in plan)


@pytest.mark.parametrize("num_layers", [12, 24, 32])
@pytest.mark.parametrize("target", [1, 2, 3, 4, 6])
def test_skipdecode_meets_a_target_over_its_horizon(num_layers, target):
    lengths = Lengths(prompt=30, output=25)
    method = load_method("skipdecode", num_layers=num_layers, target=target, lengths=lengths)
    assert (method.prompt_size, method.max_length) == (30, 55)
    mean = sum(len(layers) for layers in method.plan(25)) / 25
    assert num_layers / mean == pytest.approx(target, rel=0.04)
    assert method.min_layers < method.max_layers or target == 1


@pytest.mark.parametrize(
    "parameters",
    [
        {"min_layers": 9, "max_layers": 3},
        {"min_layers": 3, "max_layers": 13},
        {"min_layers": 0, "max_layers": 3, "warmup": 0},
        {"min_layers": 2, "max_layers": 3, "warmup": 3},
        {"min_layers": 2, "max_layers": 3, "prompt_size": 9, "max_length": 8},
        {"min_layers": 2, "max_layers": 3, "decay": "power", "gamma": 0.0},
        {"min_layers": 2, "max_layers": 3, "decay": "cubic"},
        {"min_layers": 2},
        {"target": 2, "min_layers": 2},
        {"schedule": "ramp", "skip_layers": 12},
        {"schedule": "ramp", "skip_layers": 2, "horizon": 0},
    ],
)
def test_skipdecode_refuses_what_makes_no_sense(parameters):
    with pytest.raises(UsageError, match="skipdecode"):
        skipdecode(**parameters)


# -- the others ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "target, depth", [(1, 12), (1.5, 8), (2, 6), (2.5, 5), (3, 4), (4, 3), (5, 2), (8, 2), (12, 1)]
)
def test_multi_layer_rounds_half_up(target, depth):
    method = load_method("multi_layer", num_layers=12, target=target)
    assert method.plan(2) == [tuple(range(depth))] * 2 and list(method.prompt_layers()) == list(range(depth))
    assert method.recipe(9) == load_method("calm", 12).recipe(9) == {"objective": "multi_exit"}


def test_random_skip_is_seeded_and_keeps_both_ends():
    sets = [load_method("random_skip", 12, target=3, skip_seed=seed).layers(1) for seed in range(20)]
    assert all(len(s) == 4 and s[0] == 0 and s[-1] == 11 and s == sorted(set(s)) for s in sets)
    assert len({tuple(s) for s in sets}) > 10
    assert sets[3] == load_method("random_skip", 12, target=3, skip_seed=3).layers(40)
    assert len(load_method("random_skip", 12, target=12).layers(1)) == 2
    assert load_method("random_skip", 1, target=1).layers(1) == [0]


def test_random_skip_like_skipdecode_takes_prefixes_of_one_order():
    lengths = Lengths(prompt=30, output=25)
    like = load_method("random_skip", 12, target=2, lengths=lengths, like="skipdecode", skip_seed=5)
    budgets = load_method("skipdecode", 12, target=2, lengths=lengths)
    plan = like.plan(40)
    assert [len(layers) for layers in plan] == [budgets.budget(step) for step in range(1, 41)]
    assert all(set(late) <= set(early) for early, late in zip(plan, plan[1:], strict=False))
    assert all({0, 11} <= set(layers) for layers in plan)
    fast = load_method("random_skip", 12, target=6, lengths=lengths, like="skipdecode")
    budgets = load_method("skipdecode", 12, target=6, lengths=lengths)
    assert budgets.budget(40) == 1  # not lifted to keep both ends: the control must be as fast as what it stands for
    assert [len(layers) for layers in fast.plan(40)] == [budgets.budget(step) for step in range(1, 41)]


def test_full_is_every_layer():
    assert load_method("full", 5).plan(2) == [(0, 1, 2, 3, 4)] * 2
    assert load_method("full", 5, target=4) == load_method("full", 5)  # runs once, whatever the target
