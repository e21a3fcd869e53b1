"""BLEU and chrF: sacreBLEU's own statistics and signatures; only the last formula is repeated, over arrays."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import zip_longest

import numpy as np

from .statistics import Statistics
from .words import bleu_tokenizer

ORDER = 4
CHRF_ORDER, BETA = 6, 2


def statistics(name: str, outputs: Sequence[str], references: Sequence[Sequence[str]], language: str) -> Statistics:
    """`bleu`, `e2e_bleu` (lower case) or `chrf`."""
    tokenizer = "13a" if name == "e2e_bleu" else bleu_tokenizer(language)
    metric = _prepared(name, tokenizer, tuple(map(tuple, references)))
    rows = np.array(metric._extract_corpus_statistics(list(outputs), None), dtype=float)
    signature = str(metric.get_signature())
    return (
        Statistics(rows, chrf_value, signature)
        if name == "chrf"
        else Statistics(rows, bleu_value, signature, sentence_bleu)
    )


@lru_cache(maxsize=4)
def _prepared(name: str, tokenizer: str, references: tuple[tuple[str, ...], ...]):
    """sacreBLEU's metric with the references cut into n-grams; methods on one test set share them."""
    from sacrebleu.metrics import BLEU, CHRF

    columns = list(zip_longest(*references))  # one list a reference number, None where an example has no more
    if name == "chrf":
        return CHRF(char_order=CHRF_ORDER, beta=BETA, references=columns)
    return BLEU(lowercase=name == "e2e_bleu", tokenize=tokenizer, force=True, references=columns)


def bleu_value(sums: np.ndarray) -> np.ndarray:
    """Corpus BLEU from sums [..., 10]: lengths of output and closest reference, 4 matches, 4 totals.

    Zero matches are smoothed as mteval-v13a does, sacreBLEU's default.
    """
    return _bleu(sums, np.full(sums.shape[:-1], ORDER))


def sentence_bleu(rows: np.ndarray) -> np.ndarray:
    """BLEU of single examples, over the n-gram orders that occur, as sacreBLEU advises for sentences."""
    return _bleu(rows, np.maximum((rows[..., 6:] > 0).sum(axis=-1), 1))


def _bleu(sums: np.ndarray, orders: np.ndarray) -> np.ndarray:
    length, reference = sums[..., 0], sums[..., 1]
    match, total = sums[..., 2:6], sums[..., 6:10]
    halvings = np.cumsum((match == 0) & (total > 0), axis=-1)
    smoothed = np.where(match > 0, match, 0.5**halvings)
    logs = np.log(np.where(total > 0, smoothed, 1e-300) / np.maximum(total, 1))
    counted = np.arange(ORDER) < np.asarray(orders)[..., None]
    mean = np.where(counted, logs, 0).sum(axis=-1) / orders
    brevity = np.minimum(0, 1 - reference / np.maximum(length, 1e-300))
    return np.where(match.any(axis=-1), 100 * np.exp(mean + np.maximum(brevity, -700)), 0.0)


def chrf_value(sums: np.ndarray) -> np.ndarray:
    """chrF2 from sums [..., 18]: counts in output, in reference, and matches, for each character order."""
    output, reference, match = (sums[..., start::3] for start in range(3))
    counted = (output > 0) & (reference > 0)
    orders = np.maximum(counted.sum(axis=-1), 1)
    precision = np.where(counted, match / np.maximum(output, 1), 0).sum(axis=-1) / orders
    recall = np.where(counted, match / np.maximum(reference, 1), 0).sum(axis=-1) / orders
    bottom = BETA**2 * precision + recall
    return 100 * (1 + BETA**2) * precision * recall / np.where(bottom > 0, bottom, 1)
