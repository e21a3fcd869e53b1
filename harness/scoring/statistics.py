"""Sufficient statistics of a metric, and what is drawn from them: values, bootstrap intervals, paired tests.

One row of numbers an example; the metric's value of any set of examples is a function of the SUM of their rows. So the
corpus value, the value of one example and of a thousand resamples come from the same few lines.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from math import comb

import numpy as np

CONFIDENCE = 0.95
CHUNK = 4_000_000  # resampling counts held at once


@dataclass(frozen=True)
class Statistics:
    """`rows` [examples, k]; `combine` maps sums [..., k] to values [...]; `signature` says every choice behind them."""

    rows: np.ndarray
    combine: Callable[[np.ndarray], np.ndarray]
    signature: str

    @property
    def value(self) -> float:
        """The metric over all examples."""
        return float(self.combine(self.rows.sum(axis=0)))

    def per_example(self) -> list[float]:
        """The metric of each example alone."""
        return self.combine(self.rows).tolist()


def mean_of(values: np.ndarray, signature: str) -> Statistics:
    """A metric that is the mean over examples of `values` [examples]."""
    rows = np.stack([np.asarray(values, dtype=float), np.ones(len(values))], axis=1)
    return Statistics(rows, ratio, signature)


def ratio(sums: np.ndarray) -> np.ndarray:
    """First column over second, NaN where the second is 0: there was nothing to measure."""
    top, bottom = sums[..., 0], sums[..., 1]
    return np.divide(top, bottom, out=np.full_like(top, np.nan, dtype=float), where=bottom != 0)


def resampled_sums(rows: np.ndarray, resamples: int, seed: int) -> np.ndarray:
    """Sums [resamples, k] over examples drawn with replacement, `len(rows)` a resample."""
    n = len(rows)
    random = np.random.default_rng(seed)
    step = max(1, CHUNK // n)
    sums = []
    for start in range(0, resamples, step):
        size = min(step, resamples - start)
        drawn = random.integers(n, size=(size, n)) + np.arange(size)[:, None] * n
        counts = np.bincount(drawn.ravel(), minlength=size * n).reshape(size, n)
        sums.append(counts.astype(float) @ rows)
    return np.concatenate(sums)


def bootstrap(statistics: Statistics, resamples: int = 1000, seed: int = 0) -> np.ndarray:
    """The metric's value on each of `resamples` seeded resamples of the examples."""
    return statistics.combine(resampled_sums(statistics.rows, resamples, seed))


def interval(statistics: Statistics, resamples: int = 1000, seed: int = 0) -> tuple[float, float] | None:
    """The 95 % percentile-bootstrap interval over examples; None for fewer than two examples."""
    if len(statistics.rows) < 2:
        return None
    return quantile_interval(bootstrap(statistics, resamples, seed))


def quantile_interval(values: np.ndarray) -> tuple[float, float]:
    """The central 95 % of a bootstrap distribution; resamples without a value are left out."""
    if np.isnan(values).all():
        return float("nan"), float("nan")
    low, high = np.nanquantile(values, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return float(low), float(high)


def median_interval(values: Sequence[float]) -> tuple[float, float] | None:
    """The 95 % interval of the median from order statistics: the sign test's, which supposes nothing of the spread.

    Between two order statistics it is interpolated (Hettmansperger and Sheather 1986), so that it covers about 95 % for
    six values or more. Fewer cover less between their extremes: five 93.75 %, two 50 %. None for fewer than two.
    """
    ordered = np.sort(np.asarray(values, dtype=float))
    n = len(ordered)
    if n < 2:
        return None
    depth, inwards = _sign_test(n)
    outer, inner = ordered[[depth - 1, n - depth]], ordered[[min(depth, n - 1), max(n - depth - 1, 0)]]
    low, high = (1 - inwards) * outer + inwards * inner
    return float(low), float(high)


@cache
def _sign_test(n: int) -> tuple[int, float]:
    """Which value from either end bounds the median of `n`, and the share of the way from it to the next one."""
    covers = [1 - 2 * sum(comb(n, i) for i in range(depth)) / 2**n for depth in range(1, n // 2 + 1)]
    depth = max(1, sum(c >= CONFIDENCE for c in covers))
    if depth == len(covers) or covers[depth - 1] <= CONFIDENCE:
        return depth, 0.0
    part = (covers[depth - 1] - CONFIDENCE) / (covers[depth - 1] - covers[depth])
    return depth, (n - depth) * part / (depth + (n - 2 * depth) * part)
