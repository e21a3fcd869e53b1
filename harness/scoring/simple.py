"""Metrics that need no library: how long outputs are, how many are empty, how much they repeat themselves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from .statistics import Statistics, mean_of, ratio
from .words import words

REPEAT_ORDER = 4


def statistics(name: str, outputs: Sequence[str], references: Sequence[Sequence[str]], language: str) -> Statistics:
    """`length_ratio`, `empty` or `repetition`."""
    if name == "length_ratio":
        return _length_ratio(outputs, references, language)
    if name == "empty":
        return mean_of([not output.strip() for output in outputs], "empty|share of outputs without text")
    return mean_of([repeated_share(words(o, language)) for o in outputs], f"repetition|n:{REPEAT_ORDER}|mean")


def _length_ratio(outputs, references, language: str) -> Statistics:
    rows = []
    for output, group in zip(outputs, references, strict=True):
        length = len(words(output, language))
        closest = min((len(words(r, language)) for r in group), key=lambda other: (abs(other - length), other))
        rows.append([length, closest])
    return Statistics(np.array(rows, dtype=float), ratio, "length_ratio|words|closest reference|ratio of sums")


def repeated_share(tokens: Sequence[str], order: int = REPEAT_ORDER) -> float:
    """Share of n-grams that occurred before in the same text: 1 - different / all (Welleck et al. 2020)."""
    grams = [tuple(tokens[i : i + order]) for i in range(len(tokens) - order + 1)]
    return 1 - len(set(grams)) / len(grams) if grams else 0.0
