"""Learn then Test: a threshold whose risk is controlled with high probability (CALM, arXiv 2207.07061, section 3).

Candidates are tested in a fixed order, from the safest on, and testing stops at the first whose p-value is too large.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

STEP = 0.05  # between candidates, as a share of the parameter's range
ROUNDING = 1e-9  # n times a mean of floats may lie a little above the whole number it is


@dataclass(frozen=True)
class Tested:
    """One candidate: its value, its mean loss over the calibration examples, and the p-value of "risk above delta"."""

    value: float
    risk: float
    p: float


def hoeffding_bentkus(risk: np.ndarray, n: int, delta: float) -> np.ndarray:
    """p-values [...] of "the true risk exceeds `delta`" from mean losses `risk` [...] of `n` examples in [0, 1].

    min(exp(-n h(min(R, delta), delta)), e P[Bin(n, delta) <= ceil(n R)]) with h the binary relative entropy (Bates et
    al., arXiv 2101.02703).
    """
    from scipy.stats import binom

    risk = np.asarray(risk, dtype=float)
    hoeffding = np.exp(-n * relative_entropy(np.minimum(risk, delta), delta))
    bentkus = np.e * binom.cdf(np.ceil(n * risk - ROUNDING), n, delta)
    return np.minimum(hoeffding, bentkus)


def relative_entropy(a: np.ndarray, b: float) -> np.ndarray:
    """a ln(a/b) + (1 - a) ln((1 - a)/(1 - b)), with 0 ln 0 = 0, for a in [0, 1] and b in (0, 1)."""
    from scipy.special import rel_entr

    return rel_entr(a, b) + rel_entr(1 - np.asarray(a), 1 - b)


def passed(p_values: np.ndarray, epsilon: float) -> np.ndarray:
    """How many candidates [...] pass before the first p-value [..., candidates] above `epsilon`."""
    return np.logical_and.accumulate(np.asarray(p_values) <= epsilon, axis=-1).sum(axis=-1)


def candidate_values(low: float, high: float) -> list[float]:
    """Values to test, descending from `high` by a twentieth of the range."""
    count = round(1 / STEP)
    return [round(high - (high - low) * i / count, 10) for i in range(count + 1)]


def learn_then_test(
    candidates: list[float], losses_of: Callable[[float], np.ndarray], delta: float, epsilon: float
) -> tuple[float | None, list[Tested]]:
    """(the last candidate that passed or None, everything tested); P(true risk > delta) <= epsilon for what passed.

    `losses_of` gives a candidate's loss in [0, 1] on each calibration example; it is asked for no candidate after the
    first that fails.
    """
    chosen, tested = None, []
    for value in candidates:
        losses = np.asarray(losses_of(value), dtype=float)
        risk = float(losses.mean())
        tested.append(Tested(value, risk, float(hoeffding_bentkus(risk, len(losses), delta))))
        if not passed([tested[-1].p], epsilon):
            break
        chosen = value
    return chosen, tested
