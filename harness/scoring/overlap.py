"""BLEU and chrF: sacreBLEU's own statistics and signatures; only the last formula is repeated, over arrays."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import zip_longest

import numpy as np

from .statistics import Statistics
from .words import bleu_tokenizer, sacrebleu_bleu

CHRF_ORDER, BETA = 6, 2


def statistics(name: str, outputs: Sequence[str], references: Sequence[Sequence[str]], language: str) -> Statistics:
    """`bleu`, `e2e_bleu` (lower case) or `chrf`."""
    tokenizer = "13a" if name == "e2e_bleu" else bleu_tokenizer(language)
    metric = _prepared(name, tokenizer, tuple(map(tuple, references)))
    rows = np.array(metric._extract_corpus_statistics(list(outputs), None), dtype=float)
    return Statistics(rows, chrf_value if name == "chrf" else bleu_value, str(metric.get_signature()))


@lru_cache(maxsize=4)
def _prepared(name: str, tokenizer: str, references: tuple[tuple[str, ...], ...]):
    """sacreBLEU's metric with the references cut into n-grams; methods on one test set share them."""
    columns = list(zip_longest(*references))  # one list a reference number, None where an example has no more
    if name != "chrf":
        return sacrebleu_bleu(tokenizer, lowercase=name == "e2e_bleu", references=columns)
    from sacrebleu.metrics import CHRF

    return CHRF(char_order=CHRF_ORDER, beta=BETA, references=columns)


def bleu_value(sums: np.ndarray) -> np.ndarray:
    """BLEU from sums [..., 10]: lengths of output and closest reference, 4 matches, 4 totals.

    Orders without a match are smoothed as mteval-v13a does, sacreBLEU's default. Orders without an n-gram do not count
    (`eff:yes`): that happens in single short examples, never in a corpus, where every published score is the same.
    """
    length, reference = sums[..., 0], sums[..., 1]
    match, total = sums[..., 2:6], sums[..., 6:10]
    halvings = np.cumsum((match == 0) & (total > 0), axis=-1)
    logs = np.log(np.where(match > 0, match, 0.5**halvings) / np.maximum(total, 1))
    orders = np.maximum((total > 0).sum(axis=-1), 1)
    mean = np.where(total > 0, logs, 0).sum(axis=-1) / orders
    brevity = np.minimum(0, 1 - reference / np.maximum(length, 1e-3))
    return np.where(match.any(axis=-1), 100 * np.exp(mean + brevity), 0.0)


def chrf_value(sums: np.ndarray) -> np.ndarray:
    """chrF2 from sums [..., 18]: counts in output, in reference, and matches, for each character order."""
    output, reference, match = (sums[..., start::3] for start in range(3))
    counted = (output > 0) & (reference > 0)
    orders = np.maximum(counted.sum(axis=-1), 1)
    precision = np.where(counted, match / np.maximum(output, 1), 0).sum(axis=-1) / orders
    recall = np.where(counted, match / np.maximum(reference, 1), 0).sum(axis=-1) / orders
    bottom = BETA**2 * precision + recall
    return 100 * (1 + BETA**2) * precision * recall / np.where(bottom > 0, bottom, 1)
