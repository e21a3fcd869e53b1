"""Tests between two methods on the same examples, and one score from several seeds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from ..errors import UsageError, unknown
from .api import all_statistics
from .names import Unavailable
from .statistics import Statistics, bootstrap, interval, quantile_interval

TESTS = {"bootstrap": 1000, "randomisation": 10000}  # name -> resamples usual for it
CHUNK = 4_000_000


class Paired(NamedTuple):
    """`difference` = first - second, its 95 % interval (paired bootstrap) and a two-sided p-value."""

    first: float
    second: float
    difference: float
    low: float
    high: float
    p_value: float
    test: str
    resamples: int


class SeedScore(NamedTuple):
    """Mean over seeds with its 95 % interval over EXAMPLES; beside it, the lowest and highest seed."""

    value: float
    low: float | None
    high: float | None
    lowest_seed: float
    highest_seed: float


def paired_test(
    first: Sequence[str],
    second: Sequence[str],
    references: Sequence[Sequence[str]],
    metrics: Iterable[str],
    language: str = "en",
    test: str = "bootstrap",
    resamples: int | None = None,
    seed: int = 0,
) -> dict[str, Paired]:
    """{metric: Paired} for two lists of outputs of the same examples. Unavailable metrics are left out.

    `bootstrap` is Koehn's (2004) paired bootstrap as sacreBLEU and Moses compute its p-value; `randomisation` is
    approximate randomisation (Riezler and Maxwell 2005). Raises UsageError for unequal lists or unknown names.
    """
    if test not in TESTS:
        raise unknown("test", test, TESTS)
    metrics = list(metrics)
    pairs = (all_statistics(outputs, references, metrics, language) for outputs in (first, second))
    one, two = pairs
    size = resamples or TESTS[test]
    return {
        name: compare(one[name], two[name], test, size, seed)
        for name in one
        if not isinstance(one[name], Unavailable) and not isinstance(two[name], Unavailable)
    }


def compare(first: Statistics, second: Statistics, test: str, resamples: int, seed: int) -> Paired:
    """The paired test of one metric from both methods' statistics."""
    if len(first.rows) != len(second.rows):
        raise UsageError(f"a paired test needs the same examples: {len(first.rows)} against {len(second.rows)}")
    size = resamples if test == "bootstrap" else TESTS["bootstrap"]
    differences = bootstrap(first, size, seed) - bootstrap(second, size, seed)
    difference = first.value - second.value
    if test == "bootstrap":
        null = np.abs(differences) - np.abs(differences).mean()
    else:
        null = np.abs(_shuffled_differences(first, second, resamples, seed))
    # a tie is no evidence: two equal methods have p = 1
    p_value = (np.sum(null >= abs(difference) - 1e-9) + 1) / (resamples + 1)
    low, high = quantile_interval(differences)
    return Paired(first.value, second.value, difference, low, high, min(1.0, float(p_value)), test, resamples)


def _shuffled_differences(first: Statistics, second: Statistics, resamples: int, seed: int) -> np.ndarray:
    """Differences between two pseudo-methods, each made by swapping the outputs of random examples."""
    n = len(first.rows)
    random = np.random.default_rng(seed)
    step = max(1, CHUNK // n)
    total = first.rows.sum(axis=0) + second.rows.sum(axis=0)
    differences = []
    for start in range(0, resamples, step):
        swap = random.integers(2, size=(min(step, resamples - start), n)).astype(float)
        one = first.rows.sum(axis=0) + swap @ (second.rows - first.rows)
        differences.append(first.combine(one) - first.combine(total - one))
    return np.concatenate(differences)


def over_seeds(statistics: Sequence[Statistics], resamples: int = 1000, seed: int = 0) -> SeedScore:
    """One method's score over training seeds: each resample draws the same examples for every seed."""
    values = [one.value for one in statistics]
    low = high = None
    if interval(statistics[0], 2) is not None:
        low, high = quantile_interval(np.mean([bootstrap(one, resamples, seed) for one in statistics], axis=0))
    return SeedScore(float(np.mean(values)), low, high, min(values), max(values))
