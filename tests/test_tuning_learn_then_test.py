"""Learn then Test: p-values by hand and by scipy, and the guarantee itself over a thousand simulated calibrations."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from harness.tuning.learn_then_test import candidate_values, hoeffding_bentkus, learn_then_test, passed


def by_hand(successes: int, n: int, delta: float) -> float:
    """The formula with factorials, for `successes` losses of 1 among `n`."""
    a = min(successes / n, delta)
    entropy = (a * math.log(a / delta) if a else 0.0) + (1 - a) * math.log((1 - a) / (1 - delta))
    tail = sum(math.comb(n, k) * delta**k * (1 - delta) ** (n - k) for k in range(successes + 1))
    return min(math.exp(-n * entropy), math.e * tail)


@pytest.mark.parametrize(("n", "delta"), [(10, 0.1), (96, 0.1), (100, 0.25), (300, 0.05)])
def test_p_values_equal_the_formula(n, delta):
    for successes in range(n + 1):
        ours = float(hoeffding_bentkus(successes / n, n, delta))
        assert ours == pytest.approx(by_hand(successes, n, delta), rel=1e-9)
        assert ours <= math.e * binom.cdf(successes, n, delta) + 1e-12


def test_p_values_worked_out():
    # no loss in ten at delta 0.1: Hoeffding 0.9 ** 10; Bentkus e * 0.9 ** 10 is larger
    assert float(hoeffding_bentkus(0.0, 10, 0.1)) == pytest.approx(0.3486784401)
    # a mean loss at delta or above says nothing
    assert float(hoeffding_bentkus(0.1, 10, 0.1)) == 1.0 == float(hoeffding_bentkus(0.7, 10, 0.1))
    # 5 of 100 at delta 0.1: exp(-100 (0.05 ln 0.5 + 0.95 ln(0.95 / 0.9))) = 0.188; Bentkus 0.157 = e * 0.0576
    assert float(hoeffding_bentkus(0.05, 100, 0.1)) == pytest.approx(math.e * 0.05757689, rel=1e-6)
    # a mean between two counts is rounded up
    assert float(hoeffding_bentkus(0.045, 100, 0.1)) <= float(hoeffding_bentkus(0.05, 100, 0.1))
    assert np.mean([0.1] * 30) * 30 > 3 and float(hoeffding_bentkus(np.mean([0.1] * 30), 30, 0.3)) == pytest.approx(
        by_hand(3, 30, 0.3)
    )


def test_testing_stops_at_the_first_failure():
    assert passed([0.01, 0.05, 0.2, 0.001], 0.05) == 2
    assert passed([[0.2, 0.0], [0.0, 0.0]], 0.05).tolist() == [0, 2]
    assert candidate_values(0, 1)[:3] == [1, 0.95, 0.9] and candidate_values(0, 1)[-1] == 0
    assert candidate_values(2, 4)[1] == 3.9
    asked = []

    def losses(value):
        asked.append(value)
        return np.full(200, 1 - value)

    chosen, tested = learn_then_test(candidate_values(0, 1), losses, delta=0.2, epsilon=0.05)
    assert asked == [t.value for t in tested] and tested[-1].p > 0.05
    assert chosen == tested[-2].value > 0.8
    assert learn_then_test([1.0, 0.5], lambda value: np.full(20, 0.9), 0.1, 0.05)[0] is None


@pytest.mark.parametrize("kind", ["zero or one", "graded"])
def test_a_thousand_calibrations_keep_the_promise_and_the_naive_rule_does_not(kind):
    """True risks rise as the threshold falls; one candidate's lies just above delta, which is the hardest case."""
    runs, n, delta, epsilon = 1000, 100, 0.1, 0.05
    risks = np.append(np.linspace(0, 0.098, 11), np.linspace(0.1001, 0.5, 10))
    random = np.random.default_rng(0)
    if kind == "zero or one":  # the same examples fail first at every threshold, as in real calibrations
        hits = np.sort(random.random((runs, n)), axis=1)
        means = np.stack([np.searchsorted(row, risks) for row in hits]) / n
    else:
        severity = random.beta(2, 2, (runs, n))
        means = np.stack([np.minimum(2 * risk * severity, 1).mean(1) for risk in risks], 1)
        risks = np.array([np.minimum(2 * risk * random.beta(2, 2, 200_000), 1).mean() for risk in risks])
    count = passed(hoeffding_bentkus(means, n, delta), epsilon)
    violated = np.append(0.0, risks)[count] > delta  # nothing passed: the full model, without risk
    bound = epsilon + 2 * math.sqrt(epsilon * (1 - epsilon) / runs)
    assert violated.mean() <= bound == pytest.approx(0.0638, abs=1e-4)
    assert (count > 0).mean() > 0.9  # and it is not by refusing everything
    naive = np.append(0.0, risks)[(means <= delta).cumsum(1).argmax(1) + 1] > delta
    assert naive.mean() > 0.3 > bound
