"""NIST-5 as mteval-v13a computes it.

An n-gram's information is the log of how much rarer it is than its first n-1 words, counted over all references of all
examples; matches are clipped by the best reference, as in BLEU. Brevity is judged against the mean length of all
references, each counting once whatever the number its example has, which is what the E2E challenge's scores rest on.
(nltk's NIST weighs and penalises differently: 7.13 where mteval gives 8.61.)

In resamples the weights stay those of the full set.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

import numpy as np

from .statistics import Statistics
from .words import bleu_tokenizer, lower_cutter, ngrams

ORDER = 5
BETA = -math.log(0.5) / math.log(1.5) ** 2  # an output of 2/3 the length keeps half its score


def statistics(name: str, outputs: Sequence[str], references: Sequence[Sequence[str]], language: str) -> Statistics:
    """`nist` or `e2e_nist`, from rows [examples, 13].

    Columns: information matched and n-grams, each by order; words of the references, their number, and 1.
    """
    tokenizer = "13a" if name == "e2e_nist" else bleu_tokenizer(language)
    cut = lower_cutter(tokenizer)
    information, groups = _prepared(tokenizer, tuple(map(tuple, references)))
    rows = [
        [*_matches(cut(output).split(), best, information), words, number, 1.0]
        for output, (best, words, number) in zip(outputs, groups, strict=True)
    ]
    return Statistics(np.array(rows), nist_value, f"{name}|case:lc|tok:{tokenizer}|n:{ORDER}|mteval-v13a")


def nist_value(sums: np.ndarray) -> np.ndarray:
    """NIST from sums [..., 13]."""
    information, counts = sums[..., :ORDER], sums[..., ORDER : 2 * ORDER]
    words, number, examples = np.moveaxis(sums[..., 2 * ORDER :], -1, 0)
    ratio = counts[..., 0] * number / np.maximum(words * examples, 1e-9)
    penalty = np.exp(-BETA * np.log(np.clip(ratio, 1e-9, 1)) ** 2)
    return (information / np.maximum(counts, 1)).sum(axis=-1) * penalty


@lru_cache(maxsize=4)
def _prepared(tokenizer: str, references: tuple[tuple[str, ...], ...]) -> tuple[dict, list]:
    """Information by n-gram, and for each example its clipping counts, reference words and number of references."""
    cut = lower_cutter(tokenizer)
    total, words, groups = Counter(), 0, []
    for group in references:
        best, tokens = Counter(), [cut(text).split() for text in group]
        for counts in (ngrams(t, ORDER) for t in tokens):
            best |= counts  # the most any reference has
            total.update(counts)
        length = sum(map(len, tokens))
        words += length
        groups.append((best, length, len(group)))
    return {gram: math.log2((total[gram[:-1]] if len(gram) > 1 else words) / n) for gram, n in total.items()}, groups


def _matches(output: Sequence[str], best: Counter, information: dict) -> list[float]:
    matched = [0.0] * ORDER
    for gram, count in ngrams(output, ORDER).items():
        if gram in best:
            matched[len(gram) - 1] += information[gram] * min(count, best[gram])
    return matched + [float(max(0, len(output) - n)) for n in range(ORDER)]
