"""Sufficient statistics of a metric, and what is drawn from them: values, bootstrap intervals, paired tests.

One row of numbers an example; the metric's value of any set of examples is a function of the SUM of their rows. So the
corpus value, the value of one example and of a thousand resamples come from the same few lines.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

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


def bootstrap_interval(
    values: np.ndarray, statistic: Callable[..., np.ndarray] = np.median, resamples: int = 1000, seed: int = 0
) -> tuple[float, float] | None:
    """The 95 % percentile-bootstrap interval of `statistic(values, axis)`, such as the median of repeated timings."""
    values = np.asarray(values, dtype=float)
    if len(values) < 2:
        return None
    drawn = np.random.default_rng(seed).integers(len(values), size=(resamples, len(values)))
    return quantile_interval(statistic(values[drawn], axis=1))
