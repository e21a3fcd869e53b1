"""From two sets of numbers to a verdict: paired differences, one margin, Holm's correction, and the n that decides."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

ALPHA = 0.05  # of all verdicts of a folder together, two-sided
POWER = 0.8  # of the sample size that is suggested
SUPPORTED, REFUTED, UNDECIDED, UNJUDGED = "supported", "refuted", "not decided", "not judged"


@dataclass(frozen=True)
class Evidence:
    """A difference that a claim says is above `margin`; `low`, `high` bound it with 95 % confidence.

    `p_above` and `p_below` are one-sided p-values of the difference lying above and below the margin.
    """

    estimate: float
    low: float
    high: float
    margin: float
    p_above: float
    p_below: float
    n: int
    spread: float  # standard deviation of one example's difference
    seeds_agree: bool = True
    unit: str = ""
    freedom: float = math.inf  # degrees of freedom behind the spread

    @property
    def p(self) -> float:
        """Two-sided: either side of the margin would be a verdict."""
        return min(1.0, 2 * min(self.p_above, self.p_below))


@dataclass(frozen=True)
class Verdict:
    """`verdict`, the corrected p-value, and in words why; `needed` is the n that would decide what is undecided."""

    verdict: str
    p: float | None
    reason: str
    needed: int | None = None


def paired(left: np.ndarray, right: np.ndarray, margin: float, seeds: Sequence[float] = (), unit="") -> Evidence:
    """Evidence from two values an example: is mean(left − right) above `margin`?

    `left`, `right`: [examples], aligned. `seeds`: the mean difference of each seed, which must agree in sign.
    """
    return _evidence(np.asarray(left, float) - np.asarray(right, float), margin, seeds, unit)


def _evidence(differences: np.ndarray, margin: float, seeds: Sequence[float], unit: str) -> Evidence:
    from scipy.stats import t

    n = len(differences)
    mean, spread = float(differences.mean()), float(differences.std(ddof=1)) if n > 1 else math.nan
    error = spread / math.sqrt(n)
    if not error > 1e-9 * abs(mean):  # one example, or all alike: how much they vary is not known
        return Evidence(mean, mean, mean, margin, 1.0, 1.0, n, 0.0, agree(seeds, margin), unit)
    score = (mean - margin) / error
    half = float(t.ppf(0.975, n - 1)) * error
    above, below = float(t.sf(score, n - 1)), float(t.cdf(score, n - 1))
    return Evidence(mean, mean - half, mean + half, margin, above, below, n, spread, agree(seeds, margin), unit)


def agree(seeds: Sequence[float], margin: float) -> bool:
    """Whether the differences of all seeds lie on one side of the margin."""
    return len({s > margin for s in seeds}) < 2


def from_interval(
    estimate: float, error: float | None, margin: float, n: int = 0, unit: str = "", freedom: float = math.inf
) -> Evidence:
    """Evidence from a number with its standard error (None: counted exactly, not sampled).

    `freedom`: degrees of freedom of the error. An error of 0 decides nothing: how much the number varies is not known.
    """
    from scipy.stats import t

    if error == 0:
        return Evidence(estimate, estimate, estimate, margin, 1.0, 1.0, n, 0.0, unit=unit)
    if error is None:
        above, below = float(estimate <= margin), float(estimate >= margin)
        return Evidence(estimate, estimate, estimate, margin, above, below, n, 0.0, unit=unit)
    score, half = (estimate - margin) / error, float(t.ppf(0.975, freedom)) * error
    spread = error * math.sqrt(max(n, 1))
    above, below = float(t.sf(score, freedom)), float(t.cdf(score, freedom))
    low, high = estimate - half, estimate + half
    return Evidence(estimate, low, high, margin, above, below, n, spread, unit=unit, freedom=freedom)


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's corrected p-values, in the given order."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    corrected, worst = [0.0] * len(p_values), 0.0
    for rank, i in enumerate(order):
        worst = max(worst, min(1.0, (len(p_values) - rank) * p_values[i]))
        corrected[i] = worst
    return corrected


def verdicts(evidence: Sequence[Evidence]) -> list[Verdict]:
    """A verdict for each, all of them together wrong with probability at most ALPHA."""
    return [_verdict(item, p, len(evidence)) for item, p in zip(evidence, holm([e.p for e in evidence]), strict=True)]


def _verdict(item: Evidence, p: float, tests: int) -> Verdict:
    above = item.estimate > item.margin
    if p < ALPHA and not item.seeds_agree:
        return Verdict(UNDECIDED, p, "the seeds do not agree in sign")
    if p < ALPHA:
        return Verdict(SUPPORTED if above else REFUTED, p, "beyond the margin" if above else "short of the margin")
    alike = "every example gives the same difference" if item.n else "every round gave the same, or too nearly so"
    reason = "the interval holds the margin" if item.high > item.low else alike
    return Verdict(UNDECIDED, p, reason, needed_n(item, tests))


def needed_n(item: Evidence, tests: int) -> int | None:
    """Examples that would decide with 80 % probability if the difference seen is the true one; None if none would."""
    from scipy.stats import norm, t

    gap = abs(item.estimate - item.margin)
    if not gap or not item.spread:
        return None
    quantiles = t.ppf(1 - ALPHA / (2 * tests), item.freedom) + norm.ppf(POWER)
    return math.ceil((quantiles * item.spread / gap) ** 2)
