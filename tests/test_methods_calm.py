"""CALM-DEC: confidences, thresholds in all forms, which layers are asked, what training must know."""

from __future__ import annotations

import math
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from harness import load_method
from harness.errors import UsageError


def calm(**parameters):
    return load_method("calm", num_layers=12, **parameters)


def state(hidden=None, previous=None, logits=None, classifier=None, step=1, max_steps=10):
    hidden = torch.eye(2) if hidden is None else torch.tensor(hidden)
    previous = hidden if previous is None else torch.tensor(previous)
    return SimpleNamespace(
        hidden=hidden, previous=previous, step=step, max_steps=max_steps, exit_classifier=classifier,
        logits=lambda: torch.tensor(logits),
    )  # fmt: skip


@given(lam=st.floats(0, 1), tau=st.floats(0, 9), step=st.integers(1, 60), steps=st.integers(1, 60))
def test_the_threshold_decays_as_written(lam, tau, step, steps):
    falling = math.exp(-tau * step / steps)
    assert calm(threshold=lam, tau=tau, decay="none").threshold_at(step, steps) == lam
    paper = min(max(0.9 * lam + 0.1 * falling, 0), 1)
    assert calm(threshold=lam, tau=tau, decay="paper").threshold_at(step, steps) == pytest.approx(paper, abs=1e-12)
    code = min(max(0.9 * lam + 0.1 * lam * falling, 0), 1)
    assert calm(threshold=lam, tau=tau, decay="code").threshold_at(step, steps) == pytest.approx(code, abs=1e-12)


def test_thresholds_by_hand():
    assert calm(threshold=0.8, tau=4.0, decay="paper").threshold_at(5, 10) == pytest.approx(0.72 + 0.1 * math.exp(-2))
    assert calm(threshold=0.8, decay="paper").threshold_at(5, 10) == pytest.approx(0.82)
    assert calm(threshold=0.8, decay="code").threshold_at(5, 10) == pytest.approx(0.8)
    assert calm(threshold=1.0, tau=0.0, decay="paper").threshold_at(1, 10) == 1.0
    assert calm(threshold=0.8, tau=4.0) == calm(threshold=0.8, tau=4.0, decay="paper")  # a given tau is never ignored
    assert calm(threshold=0.8) == calm(threshold=0.8, decay="none")
    assert calm(threshold=0.8, tau=4.0, decay="none").threshold_at(5, 10) == 0.8


def test_softmax_confidence_is_the_gap_of_the_two_likeliest():
    logits = [[math.log(6), math.log(3), 0.0], [0.0, 0.0, 0.0]]  # 0.6 - 0.3, and 0
    for threshold, expected in [(0.0, [True, True]), (0.29, [True, False]), (0.31, [False, False])]:
        rule = calm(confidence="softmax", threshold=threshold)
        assert rule.should_exit(0, state(logits=logits)).tolist() == expected


def test_state_confidence_is_a_cosine_first_asked_after_the_second_layer():
    shown = state(hidden=[[1.0, 0.0], [3.0, 4.0]], previous=[[2.0, 0.0], [4.0, 3.0]])  # 1, and 24/25
    rule = calm(threshold=0.97)
    assert rule.should_exit(0, shown).tolist() == [False, False]
    assert rule.should_exit(1, shown).tolist() == [True, False]
    assert calm(threshold=0.95).should_exit(1, shown).tolist() == [True, True]


def test_classifier_confidence_is_one_linear_map_for_all_layers():
    classifier = torch.tensor([1.0, -2.0, 0.5])
    shown = state(hidden=[[1.0, 1.0], [3.0, 0.0]], classifier=classifier)  # -0.5 and 3.5 before the sigmoid
    for layer in (0, 1, 7):
        assert calm(confidence="classifier", threshold=0.37).should_exit(layer, shown).tolist() == [True, True]
        assert calm(confidence="classifier", threshold=0.38).should_exit(layer, shown).tolist() == [False, True]
        assert calm(confidence="classifier", threshold=0.98).should_exit(layer, shown).tolist() == [False, False]


@pytest.mark.parametrize(
    "parameters, asked",
    [
        ({"confidence": "softmax"}, list(range(11))),
        ({"confidence": "state"}, list(range(1, 11))),
        ({"confidence": "softmax", "min_exit_layer": 4}, list(range(3, 11))),
        ({"confidence": "state", "exit_interval": 3}, [1, 4, 7, 10]),
        ({"confidence": "classifier", "min_exit_layer": 2, "exit_interval": 4}, [1, 5, 9]),
    ],
)
def test_which_layers_are_asked(parameters, asked):
    rule = calm(threshold=0.0, **parameters)
    shown = state(hidden=[[1.0, 0.0]], logits=[[1.0, 0.0]], classifier=torch.zeros(3))
    assert [layer for layer in range(11) if rule.should_exit(layer, shown).all()] == asked


def test_what_decoding_alone_uses_shares_a_checkpoint():
    forms = [{}, {"threshold": 0.3}, {"confidence": "softmax"}, {"kv": "oracle"}, {"decay": "code", "tau": 4.0}]
    assert all(calm(**form).recipe(9) == {"objective": "multi_exit"} for form in forms)
    assert calm(confidence="classifier").recipe(9) == {"objective": "multi_exit", "classifier": True}
    assert calm().kv_policy == "propagate" and calm(kv="oracle").kv_policy == "oracle"


@pytest.mark.parametrize(
    "parameters, message",
    [
        ({"threshold": 1.1}, "threshold must lie in"),
        ({"threshold": float("nan")}, "threshold must lie in"),
        ({"tau": -1.0}, "tau >= 0"),
        ({"min_exit_layer": 0}, "min_exit_layer >= 1"),
        ({"exit_interval": 0}, "exit_interval >= 1"),
        ({"confidence": "entropy"}, "parameter confidence='entropy'"),
        ({"kv": "copy"}, "parameter kv='copy'"),
    ],
)
def test_calm_refuses_what_makes_no_sense(parameters, message):
    with pytest.raises(UsageError, match=message):
        calm(**parameters)
