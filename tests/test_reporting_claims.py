"""Claims: planted winners, ties and losers get the right verdict; unlike things are never compared."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from scipy import stats

from harness.reporting.claims import comparisons
from harness.reporting.claims.claim_list import CLAIMS, Claim
from harness.reporting.claims.claims import claims_table, claims_text, judge_panels
from harness.reporting.claims.judging import from_interval, holm, needed_n, paired, verdicts
from harness.reporting.panels import Panel, panels
from harness.reporting.points import Point, Timing, Value

N, SPREAD = 630, 18.0
BEATS = Claim("b", "left beats right", "here", "beats", "left", "right", (), 0.01)
KEEPS = Claim("k", "left keeps 95 %", "here", "keeps", "left", tasks=(), margin=-0.05)


@dataclass
class FakeRun:
    """A run whose examples are in memory."""

    config: dict
    values: list[float]
    ids: list[str] = field(default_factory=list)
    scores = property(lambda self: {"per_example": {"bleu": self.values}})

    def records(self) -> list[dict]:
        return [{"id": i} for i in self.ids or map(str, range(len(self.values)))]


def point(method: str, values_by_seed, speed: float = 2.0, target: float | None = 2, **changes) -> Point:
    seeds = values_by_seed if isinstance(values_by_seed, list) else [values_by_seed]
    config = {"task": "e2e", "metrics": ["bleu"], "checkpoint": "own", "seed": 0, "n": len(seeds[0]), "source": "local"}
    config |= {"method": {"name": method, "target": target, "params": {}}, "model": {"name": "m", "num_layers": 12}}
    config |= changes
    runs = tuple(FakeRun({**config, "seed": s}, list(v), changes.get("ids", [])) for s, v in enumerate(seeds))
    mean = float(np.mean(seeds))
    values = {"speedup_layers": Value(speed), "bleu": Value(mean, mean - 1, mean + 1)}
    return Point(config, values, runs=runs, label=method)


def panel(*points: Point) -> Panel:
    """A panel with a floor far below, unless one is given."""
    floors = [] if any(p.method == "floor" for p in points) else [point("floor", np.full(N, 5.0), target=None)]
    return Panel("p", [*points, *floors])


def planted(rng: np.random.Generator, gap: float, seeds: int = 1) -> Panel:
    """`left` better than `right` by `gap`; each example has a difficulty of its own, shared by all methods."""
    base = rng.normal(60, 15, N)

    def run(mean: float) -> list[np.ndarray]:
        return [base + mean + rng.normal(0, SPREAD / math.sqrt(2), N) for _ in range(seeds)]

    full = point("full", run(4.0), speed=1.0, target=None)
    return panel(full, point("left", run(gap)), point("right", run(0.0), speed=2.03))


def judged(group: Panel, *claims: Claim):
    return judge_panels([group], claims or (BEATS,))


@pytest.mark.parametrize(("gap", "expected"), [(5.0, "supported"), (0.0, None), (-5.0, "refuted")])
def test_planted_results_get_the_right_verdict_200_times(gap, expected):
    found = []
    for seed in range(200):
        claims = (BEATS, KEEPS)  # a family, as in a real folder
        found.append(judged(planted(np.random.default_rng([seed, 7]), gap), *claims)[0].verdict.verdict)
    if expected:
        assert found.count(expected) >= 195 and not {"supported", "refuted"} - {expected} & set(found)
    else:
        assert "supported" not in found, "a tie must never read as support"


def test_a_wrong_sign_in_one_seed_blocks_the_verdict():
    rng = np.random.default_rng(0)
    base = rng.normal(50, 5, N)
    left = [base + gap + rng.normal(0, 1, N) for gap in (9, 9, -2)]
    group = panel(point("full", [base] * 3, 1.0, None), point("left", left), point("right", [base] * 3))
    judgement = judged(group)[0]
    assert judgement.evidence.p < 1e-6 and judgement.verdict.reason == "the seeds do not agree in sign"
    assert judgement.verdict.verdict == "not decided"
    same = panel(point("full", [base] * 3, 1.0, None), point("left", left[:2]), point("right", [base] * 3))
    assert judged(same)[0].verdict.verdict == "supported"


def test_controls_with_many_seeds_are_averaged():
    rng = np.random.default_rng(1)
    base = rng.normal(50, 5, N)
    group = panel(point("full", base + 9, 1.0, None), point("left", base + 5), point("right", [base + 1, base - 1]))
    assert judged(group)[0].evidence.estimate == pytest.approx(5.0)
    wants_five = Claim("b", "left beats right", "here", "beats", "left", "right", (), 0.01, runs=5)
    assert "mean of 5 runs" in judged(group, wants_five)[0].verdict.reason


def test_undecided_names_a_sample_size_that_decides():
    rng = np.random.default_rng(3)
    judgement = judged(planted(rng, 1.5))[0]
    assert judgement.verdict.verdict == "not decided" and judgement.verdict.needed > N
    item = paired(rng.normal(1.0, 10, 200), np.zeros(200), 0.0)
    n = needed_n(item, 1)
    power = stats.norm.sf(stats.norm.ppf(0.975) - abs(item.estimate) / (item.spread / math.sqrt(n)))
    assert power == pytest.approx(0.8, abs=0.01)


def test_paired_evidence_equals_scipys_t_test():
    rng = np.random.default_rng(5)
    a, b = rng.normal(1, 3, 40), rng.normal(0.5, 3, 40)
    item = paired(a, b, 0.2)
    expected = stats.ttest_1samp(a - b, 0.2, alternative="greater")
    assert item.p_above == pytest.approx(expected.pvalue)
    assert (item.low, item.high) == pytest.approx(stats.ttest_1samp(a - b, 0).confidence_interval(0.95))


def test_holm_by_hand():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([]) == [] and holm([0.9, 0.8]) == pytest.approx([1.0, 1.0])


def test_exact_counts_need_no_test():
    assert verdicts([from_interval(0.3, None, 0.0), from_interval(-0.1, None, 0.0)])[0].verdict == "supported"
    assert verdicts([from_interval(-0.1, None, 0.0)])[0].verdict == "refuted"
    assert verdicts([from_interval(0.0, None, 0.0)])[0].verdict == "not decided"


# --- only like with like ----------------------------------------------------------------------------------------------

BASE = np.random.default_rng(9).normal(50, 5, N)
FULL = point("full", BASE + 2, 1.0, None)


def reason(*points: Point, claim: Claim = BEATS) -> str:
    judgement = judge_panels([panel(*points)], (claim,))[0]
    assert judgement.verdict.verdict == "not judged" and judgement.evidence is None
    return judgement.verdict.reason


def test_speeds_that_cannot_be_compared_are_not_judged():
    assert "no speed of right" in reason(FULL, point("left", BASE), point("right", BASE, speed=2.5))


def test_a_speed_between_two_runs_is_interpolated():
    rivals = point("right", BASE - 2, speed=1.0, target=1), point("right", BASE - 6, speed=3.0, target=4)
    judgement = judged(panel(FULL, point("left", BASE, speed=2.5), *rivals))[0]
    assert judgement.evidence.estimate == pytest.approx(5.0)


def test_nothing_is_judged_where_full_does_not_beat_the_floor():
    floor = point("floor", BASE + 1.5, None, None)
    assert "does not clearly beat the floor" in reason(FULL, point("left", BASE), point("right", BASE), floor)


def test_nothing_is_judged_where_the_floor_is_not_known():
    group = Panel("p", [FULL, point("left", BASE), point("right", BASE)])
    assert "no trivial output was scored" in judged(group)[0].verdict.reason


def test_a_difference_that_never_varies_is_not_decided():
    judgement = judged(panel(FULL, point("left", BASE), point("right", BASE)))[0]
    assert judgement.verdict.verdict == "not decided" and "same difference" in judgement.verdict.reason


def test_other_examples_or_no_examples_are_not_compared():
    other = point("right", BASE, ids=[f"y{i}" for i in range(N)])
    assert "same examples" in reason(FULL, point("left", BASE), other)
    silent = Point(FULL.config, FULL.values, runs=())
    assert "single examples" in reason(silent, point("left", BASE), point("right", BASE))


def test_base_checkpoints_are_not_judged():
    group = panel(FULL, point("left", BASE, checkpoint="base"), point("right", BASE))
    assert judged(group) == []
    assert "no run of right" in reason(FULL, point("left", BASE), point("right", BASE, checkpoint="base"))
    assert "own checkpoint" in reason(point("full", BASE, 1.0, None, checkpoint="base"), point("left", BASE))


def test_examples_are_paired_by_id_whatever_their_order():
    order = np.random.default_rng(2).permutation(N)
    shuffled = point("right", (BASE - 3)[order], ids=[str(i) for i in order])
    judgement = judged(panel(FULL, point("left", BASE), shuffled))[0]
    assert judgement.evidence.estimate == pytest.approx(3.0) and judgement.evidence.spread == 0


# --- clocks and memory ------------------------------------------------------------------------------------------------


def timed(method: str, walls: dict[int, tuple], kv: float = 100, target: float = 2) -> Point:
    base = point(method, BASE, target=target)
    timings = [
        Timing({"batch_size": size}, {"speedup_wall": Value(*wall), "kv_bytes_peak": Value(kv)})
        for size, wall in walls.items()
    ]
    return Point(base.config, base.values, tuple(timings), base.runs, method)


def test_batch_memory_and_clock_claims():
    full = Point(FULL.config, FULL.values, timed("full", {1: (1, 1, 1)}, 200).timings, FULL.runs, "full")
    good = timed("left", {1: (1.9, 1.88, 1.92), 32: (1.88, 1.86, 1.9)})
    bad = timed("right", {1: (1.9, 1.88, 1.92), 32: (1.2, 1.18, 1.22)}, 300)
    group = panel(full, good, bad)

    def verdict(kind: str, left: str, right: str = "full", margin: float = 0.0) -> str:
        return judge_panels([group], (Claim("c", "c", "s", kind, left, right, (), margin),))[0].verdict.verdict

    assert verdict("any_batch", "left", margin=-0.1) == "supported"
    assert verdict("any_batch", "right", margin=-0.1) == "refuted"
    assert verdict("fades", "right", margin=0.1) == "supported" and verdict("fades", "left", margin=0.1) == "refuted"
    assert verdict("less_kv", "left") == "supported" and verdict("less_kv", "right") == "refuted"
    assert verdict("closer", "left", "right") == "not decided"
    assert verdict("faster", "left", margin=0.3) == "supported"


def test_an_undecided_clock_needs_more_rounds_not_more_examples():
    full = timed("full", {1: (1, 1, 1)})
    left = timed("left", {1: (1.9, 1.5, 2.3), 8: (1.8, 1.4, 2.2)})
    judgements = judge_panels([panel(FULL, left, full)], (Claim("c", "c", "s", "any_batch", "left", margin=-0.1),))
    assert re.search(r"about \d+ times as many rounds would decide", claims_table(judgements).markdown())


def test_a_clock_that_ran_once_decides_nothing():
    full = timed("full", {1: (1, None, None)})
    assert "ran once" in reason(FULL, timed("left", {1: (1.9, None, None), 8: (1.8, None, None)}), full,
                                claim=Claim("c", "c", "s", "any_batch", "left"))  # fmt: skip


@pytest.mark.parametrize("kind", ["any_batch", "closer", "faster"])
def test_a_clock_on_a_busy_machine_decides_nothing(kind):
    full = timed("full", {1: (1, 1, 1)})
    left = timed("left", {1: (1.9, 1.8, 2.0, None, None, "busy machine"), 8: (1.8, 1.7, 1.9)})
    rival = timed("right", {1: (1.4, 1.3, 1.5)})
    right = "right" if kind == "closer" else "full"
    assert reason(full, left, rival, claim=Claim("c", "c", "s", kind, "left", right)) == "busy machine"


def claim(kind: str, left: str = "left", right: str = "full", margin: float = 0.0, **changes) -> Claim:
    return Claim("c", "a claim", "here", kind, left, right, (), margin, **changes)


def at(point: Point, *timings: tuple[dict, Value], name: str = "speedup_wall") -> Point:
    """The point with other timings."""
    return replace(point, timings=tuple(Timing(setting, {name: value}) for setting, value in timings))


def near(value: float) -> Value:
    return Value(value, value - 0.01, value + 0.01)


@pytest.mark.parametrize("kind, margin", [("any_batch", -0.1), ("faster", 0.3)])
def test_a_seed_without_a_clock_does_not_wash_a_flag_off(kind, margin):
    doubted = timed("left", {1: (1.9, 1.88, 1.92, None, None, "busy machine"), 8: (1.2, 1.18, 1.22)})
    unseen = point("left", BASE, seed=1)
    fulls = timed("full", {1: (1, 1, 1)}, target=None), point("full", BASE, 1.0, None, seed=1)
    (group,) = panels([doubted, unseen, *fulls, point("floor", np.full(N, 5.0), 1.0, None)])
    assert len(group.methods) == 2
    assert judged(group, claim(kind, margin=margin))[0].verdict.reason == "busy machine"


def test_equal_rounds_are_no_certainty_but_counts_are():
    """An error of 0 says that nothing is known of how the clock varies."""
    group = panel(FULL, timed("left", {1: (1.9, 1.9, 1.9)}))
    verdict = judged(group, claim("faster", margin=0.3))[0].verdict
    assert (verdict.verdict, verdict.p) == ("not decided", 1.0) and "every round" in verdict.reason


@pytest.mark.parametrize("rounds", [5, 7, 10, 20])
def test_a_clock_whose_truth_is_the_margin_is_judged_wrongly_one_time_in_twenty(rounds):
    from harness.measuring.rounds import value

    samples = 1.5 * (1 + 0.02 * np.random.default_rng(rounds).normal(size=(1500, rounds)))
    saved = [at(point("left", BASE), ({"batch_size": 1}, Value(**value(row)))) for row in samples]
    p_values = [comparisons.faster(claim("faster", margin=1 / 3), None, p, ()).p for p in saved]
    assert 0.015 < np.mean(np.array(p_values) < 0.05) < 0.075


def test_batch_claims_begin_at_batch_1_and_change_nothing_else():
    verdict = judged(panel(FULL, timed("left", {8: (1.9, 1.88, 1.92), 32: (1.85, 1.83, 1.87)})), claim("any_batch"))[0]
    assert "at batch 1" in verdict.verdict.reason
    one = {"batch_size": 1, "threads": 2}
    left = at(point("left", BASE), (one, near(1.9)), (one | {"threads": 1}, near(1.2)))
    assert "at batch 1" in judged(panel(FULL, left), claim("any_batch"))[0].verdict.reason
    mixed = at(
        left, (one, near(1.9)), (one | {"batch_size": 8}, near(1.8)), ({"batch_size": 32, "threads": 1}, near(1))
    )
    assert judged(panel(FULL, mixed), claim("any_batch"))[0].evidence.estimate == pytest.approx(1.8 / 1.9 - 1)


@pytest.mark.parametrize("changed", [{"batch_size": 32}, {"threads": 1}])
def test_depth_is_priced_under_equal_conditions(changed):
    def looped(method: str, layers: int, ms: float, **setting) -> Point:
        model = {"name": f"l{layers}", "num_layers": layers, "num_cycles": layers // 4, "family": "opt"}
        value = Value(ms, ms * 0.99, ms * 1.01)
        where = {"batch_size": 1, "threads": 2} | setting
        return at(point(method, BASE, target=None, model=model), (where, value), name="decode_ms_per_token")

    deep = panel(looped("full", 12, 12.0), looped("speed", 12, 9.0))
    found = judge_panels([deep, panel(looped("full", 4, 30.0, **changed))], (claim("deeper", "speed"),))[0]
    assert "equal conditions" in found.verdict.reason
    found = judge_panels([deep, panel(looped("full", 4, 6.0))], (claim("deeper", "speed"),))[0]
    assert found.evidence.estimate == pytest.approx(-0.5)


@pytest.mark.parametrize("order", [1, -1])
def test_the_hardest_form_of_a_rival_counts_whatever_their_order(order):
    def spread(method: str, std: float, label: str, wall: float) -> Point:
        found = timed(method, {1: (wall, wall - 0.01, wall + 0.01)})
        return replace(found, values=found.values | {"speedup_layers_std": Value(std)}, label=label)

    rivals = [spread("right", 0.5, "right a", 1.2), spread("right", 0.1, "right b", 1.95)][::order]
    group = panel(FULL, spread("left", 0.2, "left", 1.5), *rivals)
    closer, steadier = judged(group, claim("closer", right="right"), claim("steadier", right="right"))
    assert closer.evidence.estimate == pytest.approx(0.05 / 2 - 0.5 / 2) and closer.verdict.verdict == "refuted"
    assert steadier.evidence.estimate == pytest.approx(math.log(0.1 / 0.2))


def test_two_forms_of_the_left_side_are_told_apart():
    forms = [replace(point("left", BASE + gain), label=f"left gain={gain}") for gain in (3, -3)]
    judgements = judged(panel(FULL, *forms, point("right", BASE)))
    assert [re.search(r"gain=-?\d", str(j)).group() for j in judgements] == ["gain=3", "gain=-3"]
    assert "| left gain=3 |" in claims_table(judgements).markdown()


def test_quality_is_kept_only_at_a_target_that_the_claim_names_and_that_was_met():
    fine = BASE + np.random.default_rng(4).normal(2, 1, N)

    def why(target: float, speed: float, **changes) -> str:
        return judged(panel(FULL, point("left", fine, speed, target)), claim("keeps", margin=-0.05, **changes))[
            0
        ].verdict

    assert why(2, 1.95).verdict == why(6, 6.0).verdict == "supported"
    assert "target was missed: 1.02x" in why(4, 1.02).reason
    assert "other targets than 1.2x" in why(1.2, 1.2).reason and "other targets" in why(8, 8.0).reason
    assert why(1.2, 1.2, targets=(1, math.inf)).verdict == "supported"
    assert "other targets" in why(1, 1.0, targets=(1, math.inf)).reason


def test_training_seeds_of_one_random_choice_are_one_choice():
    rng = np.random.default_rng(6)

    def five(key: str) -> list[Point]:
        points = []
        for i in range(5):
            seeds = {"skip_seed": 0, "seed": 0} | {key: i}
            method = {"name": "right", "target": 2, "params": {"skip_seed": seeds["skip_seed"]}}
            right = point("right", BASE - 5 + rng.normal(0, 2, N))
            config = right.config | {"seed": seeds["seed"], "method": method}
            points.append(replace(right, config=config, runs=(FakeRun(config, right.runs[0].values),)))
        return points

    others = [FULL, point("left", BASE + rng.normal(0, 2, N)), point("floor", np.full(N, 5.0), target=None)]
    wants = replace(BEATS, runs=5)
    assert judge_panels(panels([*others, *five("skip_seed")]), (wants,))[0].verdict.verdict == "supported"
    assert "fewer" in judge_panels(panels([*others, *five("seed")]), (wants,))[0].verdict.reason


def test_seeds_must_agree_against_a_rival_of_one_seed_too():
    rng = np.random.default_rng(8)
    left = [BASE + gain + rng.normal(0, 1, N) for gain in (9, 9, -4)]
    judgement = judged(panel(point("full", [BASE] * 3, 1.0, None), point("left", left), point("right", BASE)))[0]
    assert judgement.verdict.reason == "the seeds do not agree in sign"


@pytest.mark.parametrize("name", ["data_hash", "limit", "max_prompt_tokens", "max_new_tokens", "batch_size", "threads"])
def test_runs_on_other_data_or_made_otherwise_are_neither_seeds_nor_rivals(name):
    mine, other = {name: 1}, {name: 2}
    full, floor = (point(m, v, 1.0, None, **mine) for m, v in (("full", BASE + 20), ("floor", np.full(N, 5.0))))
    groups = panels([full, floor, point("left", BASE + 5, **mine), point("right", BASE, **other)])
    assert len(groups) == 2 and "no run of right" in judge_panels(groups, (BEATS,))[0].verdict.reason
    assert len(panels([point("left", BASE, **mine), point("left", BASE, **other)])) == 2
    if name == "data_hash":
        assert [len(g.points) - len(g.methods) for g in groups] == [1, 0]


def test_every_claim_names_a_known_comparison_and_is_told_in_words():
    assert all(callable(getattr(comparisons, claim.kind)) for claim in CLAIMS)
    assert len({claim.id for claim in CLAIMS}) == len(CLAIMS)
    judgements = judged(planted(np.random.default_rng(0), 5.0), BEATS, KEEPS)
    table = claims_table(judgements)
    assert "supported" in table.markdown() and len(table.rows) == len(table.keys) == 2
    assert "supported: left beats right (E2E, 2x): +" in claims_text(judgements)
    assert claims_text([]) == "no claim is touched by these results"
