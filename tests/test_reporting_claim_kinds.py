"""What each claim is about: which settings, forms and checkpoints it may be judged on, and what its figures are."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest

from harness.reporting.claims import comparisons, speed_claims
from harness.reporting.claims.claim_list import CLAIMS, Claim
from harness.reporting.claims.claims import claims_table, judge_panels
from harness.reporting.panels import Panel
from harness.reporting.points import Point, Value
from harness.reporting.tables.paper_tables import build
from harness.reporting.tables.papers import unified_figures

N = 400
BASE = np.random.default_rng(3).normal(50, 5, N)
TUNED = {"kind": "tuned", "method": "skipdecode", "task": "e2e", "source": "local", "target": 2.0, "file": "t.json"}
CLAIM = {claim.id: claim for claim in CLAIMS}


@dataclass
class Run:
    """A run whose scores are in memory."""

    config: dict
    scores: dict

    def records(self) -> list[dict]:
        return [{"id": str(i)} for i in range(N)]


def point(name: str, *seeds, target: float | None = 2, task: str = "cnn_dm", corpus: float = 0.0, **changes) -> Point:
    """A point of one or several seeds; `corpus`: how far the corpus value lies from the mean of the single ones."""
    more = {k: changes.pop(k) for k in ("params", "tuned") if k in changes}
    speed, spread = changes.pop("speed", 2.0), changes.pop("spread", [None] * len(seeds))
    config = {"task": task, "metrics": ["bleu"], "checkpoint": "own", "n": N, "source": "local"}
    config |= {"method": {"name": name, "target": target, "params": {}} | more}
    config |= {"model": {"name": "m", "num_layers": 12}} | changes
    runs = []
    for seed, (values, std) in enumerate(zip(seeds, spread, strict=True)):
        mean = float(np.mean(values)) + corpus
        entry = {"value": mean, "low": mean - 1, "high": mean + 1}
        scored = {"bleu": entry, "speedup_layers_std": {"value": std}}
        runs.append(Run({**config, "seed": seed}, {"values": scored, "per_example": {"bleu": list(values)}}))
    mean = float(np.mean(seeds)) + corpus
    values = {"speedup_layers": Value(speed, speed - 0.02, speed + 0.02), "bleu": Value(mean, mean - 1, mean + 1)}
    values["speedup_layers_std"] = Value(None if None in spread else float(np.mean(spread)))
    return Point({**config, "seed": 0}, values, runs=tuple(runs), label=name)


def panel(*points: Point, task: str = "cnn_dm") -> Panel:
    return Panel(task, [*points, point("floor", np.full(N, 5.0), target=None, task=task)])


def noisy(mean: float, seed: int = 0) -> np.ndarray:
    return BASE + mean + np.random.default_rng(seed).normal(0, 1, N)


FULL = point("full", noisy(0.0, 1), target=None, speed=1.0)


def judged(claim: str | Claim, *groups: Panel) -> list:
    return judge_panels(groups, (CLAIM[claim] if isinstance(claim, str) else claim,))


# --- settings that carry over -----------------------------------------------------------------------------------------


def carried(**tuned) -> str:
    (found,) = judged("skipdecode-carries-over", panel(FULL, point("skipdecode", noisy(0), tuned=TUNED | tuned)))
    return found.verdict.verdict if found.evidence else found.verdict.reason


def test_settings_carry_over_only_if_they_were_found_on_e2e():
    assert carried() == "supported"
    for other in ({"task": "cnn_dm"}, {"kind": "calibrated"}, {"source": "stand-in"}):
        assert carried(**other).startswith("not tested"), other
    assert "stand-in data of E2E" in carried(source="stand-in")
    (found,) = judged("skipdecode-carries-over", panel(FULL, point("skipdecode", noisy(0))))
    assert found.evidence is None and "skipbench tune skipdecode --task e2e" in found.verdict.reason


# --- forms and checkpoints --------------------------------------------------------------------------------------------


def test_a_claim_about_softmax_is_judged_on_softmax_alone():
    state, softmax = (point("calm", noisy(g), params={"confidence": c}) for g, c in ((-20, "state"), (0, "softmax")))
    (found,) = judged("calm-softmax-keeps", panel(FULL, state, softmax))
    assert found.verdict.verdict == "supported"
    (found,) = judged("calm-softmax-keeps", panel(FULL, state, replace(state, label="calm b")))
    assert found.evidence is None and "confidence=softmax" in found.verdict.reason


def test_translation_orders_skipdecode_above_early_exit():
    group = panel(FULL, point("skipdecode", noisy(2)), point("calm", noisy(-2, 5)), task="translation")
    group.points[:] = [replace(p, config=p.config | {"task": "translation:de-en"}) for p in group.points]
    assert [j.verdict.verdict for j in judged("skipdecode-beats-calm-translation", group)] == ["supported"]
    assert judged("skipdecode-beats-calm-translation", panel(FULL, point("skipdecode", noisy(2)))) == []


def ramp(skipped: int, mean: float, name: str = "skipdecode", **changes) -> Point:
    params = {"schedule": "ramp", "skip_layers": skipped} if name == "skipdecode" else {}
    return point(name, noisy(mean, len(name)), target=None, checkpoint="base", params=params, speed=1.3, **changes)


def test_adaskips_ordering_is_judged_on_base_checkpoints_with_a_quarter_skipped():
    base = point("full", noisy(0, 2), target=None, checkpoint="base", speed=1.0)
    rival = ramp(0, -5, "unified")
    (found,) = judged("skipdecode-untuned-beats-unified", panel(FULL, base, ramp(3, 0), rival))
    assert found.verdict.verdict == "supported"
    for wrong in (ramp(2, 0), ramp(6, 0)):
        (found,) = judged("skipdecode-untuned-beats-unified", panel(FULL, base, wrong, rival))
        assert "skip_layers=3" in found.verdict.reason
    (found,) = judged("skipdecode-untuned-beats-unified", panel(FULL, ramp(3, 0), rival))
    assert "no full with a base checkpoint" in found.verdict.reason
    own = point("unified", noisy(-5), target=None, speed=1.3)
    (found,) = judged("skipdecode-untuned-beats-unified", panel(FULL, base, ramp(3, 0), own))
    assert "no run of unified" in found.verdict.reason


@pytest.mark.parametrize(("speed", "verdict"), [(2.05, "supported"), (1.6, "refuted")])
def test_another_horizon_is_compared_with_the_shortest_of_the_same_layers(speed, verdict):
    def at(horizon: int, speed: float, layers: int = 3) -> Point:
        params = {"min_layers": layers, "max_length": horizon}
        return point("skipdecode", noisy(0), target=None, params=params, speed=speed)

    (found,) = judged("skipdecode-horizon", panel(FULL, at(40, 2.0), at(80, speed)))
    assert found.verdict.verdict == verdict
    assert found.evidence.estimate == pytest.approx(-abs(speed / 2.0 - 1))
    assert judged("skipdecode-horizon", panel(FULL, at(40, 2.0), at(80, speed, layers=4))) == []


# --- what the figures are ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("corpus", "unit"), [(0.0, "BLEU"), (4.0, "mean sentence BLEU")])
def test_the_mean_of_single_scores_is_called_so_where_it_is_not_the_metric(corpus, unit):
    full = point("full", noisy(0.0, 1), target=None, corpus=corpus, speed=1.0)
    left, right = point("skipdecode", noisy(3), corpus=corpus), point("calm", noisy(0, 5), corpus=corpus)
    claim = Claim("b", "left beats right", "here", "beats", "skipdecode", "calm", (), 0.01)
    (found,) = judged(claim, panel(full, left, right))
    assert found.evidence.unit == unit
    markdown = claims_table([found]).markdown()
    assert f"] {unit} |" in markdown and "the mean of the scores of single outputs" in markdown


# --- seeds ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("second", "agree"), [(-20, True), (20, False)])
def test_seeds_must_agree_on_which_task_loses_more(second, agree):
    full = point("full", noisy(0, 1), noisy(0, 2), target=None, speed=1.0)
    e2e = point("full", noisy(0, 1), noisy(0, 2), target=None, task="e2e", speed=1.0)
    there = panel(e2e, point("skipdecode", noisy(0, 3), noisy(0, 4), task="e2e"), task="e2e")
    here = panel(full, point("skipdecode", noisy(-30, 5), noisy(second, 6)))
    evidence = comparisons.loses_more(CLAIM["skipdecode-summaries-lose-more"], here, here.points[1], [here, there])
    assert evidence.seeds_agree is agree and evidence.estimate > 0
    verdict = judged("skipdecode-summaries-lose-more", here, there)[0].verdict
    assert verdict.verdict == ("supported" if agree else "not decided")


@pytest.mark.parametrize(("second", "agree"), [(0.2, True), (0.9, False)])
def test_seeds_must_agree_on_what_is_steadier(second, agree):
    mine = point("unified", noisy(0), noisy(0), spread=[0.1, second])
    other = point("calm", noisy(0), noisy(0), spread=[3.0, 0.8])
    evidence = speed_claims.steadier(CLAIM["unified-steadier"], panel(FULL, mine, other), mine, ())
    assert evidence.seeds_agree is agree and evidence.estimate > 0


# --- published figures and promises -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("unified", {"params": {"selection": "balanced"}}),
        ("skipdecode", {"params": {"mode": "terminate"}}),
        ("unified", {"checkpoint": "base"}),
    ],
)
def test_other_rules_than_the_papers_have_no_published_figure(name, changes):
    usual = point(name, noisy(0), task="translation:de-en")
    assert unified_figures(usual)["bleu"] == {"unified": 21.23, "skipdecode": 20.70}[name]
    assert unified_figures(point(name, noisy(0), task="translation:de-en", **changes)) is None


def test_calms_table_shows_what_a_threshold_promises():
    promise = {"kind": "calibrated", "guarantee": "textual", "delta": 0.1, "epsilon": 0.05}
    calm = point("calm", noisy(0), target=None, tuned=promise, params={"confidence": "softmax", "threshold": 0.9})
    table = next(t for t in build([panel(FULL, calm)]) if t.id.endswith("calm-main"))
    heads = [c.heading for c in table.columns]
    shown = [row[heads.index("guarantee")].shown for row in table.rows]
    assert shown[0] == "textual, δ = 0.1" and any(text.startswith("risk") for text in shown[1:])
