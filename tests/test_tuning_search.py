"""Candidates of a schedule by arithmetic, and who wins among them."""

from __future__ import annotations

import pytest

from harness import load_method
from harness.method import Lengths
from harness.registry import METHODS
from harness.tuning.search import Finalist, winner
from methods.skipdecode import expected_speedup, reaching

SKIPDECODE = METHODS.load("skipdecode")
LENGTHS = Lengths(20, 30, tuple(range(10, 61)))  # outputs longer and shorter than the horizon


def speedup_by_running(method, lengths) -> float:
    """Layers counted step by step, output by output."""
    ran = sum(len(method.layers(step)) for length in lengths.outputs for step in range(1, length))
    return method.num_layers * sum(length - 1 for length in lengths.outputs) / ran


@pytest.mark.parametrize("num_layers", [12, 24, 32])
@pytest.mark.parametrize("target", [2.0, 3.0, 4.0, 6.0])
def test_candidates_meet_the_target_over_the_training_outputs(num_layers, target):
    found = SKIPDECODE.tuning_candidates(num_layers, target, LENGTHS)
    assert len({(m.min_layers, m.max_layers) for m in found}) == len(found) >= 3
    speeds = [speedup_by_running(method, LENGTHS) for method in found]
    errors = [abs(speed / target - 1) for speed in speeds]
    assert errors == sorted(errors)
    assert all(error <= 0.03 for error in errors[3:]) and errors[0] <= 0.03
    assert all(m.prompt_size == 20 and m.max_length == 50 for m in found)


def test_steps_reached_are_counted():
    assert reaching(Lengths(5, 3, (1, 3, 3, 4))) == [3, 3, 1]
    method = load_method("skipdecode", 12, min_layers=4, max_layers=8)
    assert expected_speedup(method, reaching(LENGTHS)) == pytest.approx(speedup_by_running(method, LENGTHS))


def test_candidates_keep_what_is_fixed():
    found = SKIPDECODE.tuning_candidates(12, 2.0, LENGTHS, warmup=3, decay="power", max_length=90)
    assert all(m.warmup == 3 <= m.min_layers and m.decay == "power" and m.max_length == 90 for m in found)


def test_given_counts_take_their_horizon_from_the_training_lengths():
    method = load_method("skipdecode", 12, lengths=LENGTHS, min_layers=3, max_layers=9)
    assert (method.prompt_size, method.max_length) == (20, 50)
    assert load_method("skipdecode", 12, lengths=LENGTHS, min_layers=3, max_layers=9, max_length=70).max_length == 70


def test_quality_decides_near_the_target_and_speed_where_nothing_is_near():
    at = lambda speed, score: Finalist(None, 0.0, score, speed)  # noqa: E731
    assert winner([at(2.09, 50), at(1.91, 60), at(2.2, 90)], 2.0).score == 60
    assert winner([at(1.5, 50), at(2.3, 40)], 2.0).score == 40
