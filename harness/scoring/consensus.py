"""CIDEr-D and the image-captioning ROUGE-L, which the E2E challenge uses.

The formulas are pycocoevalcap's, whose own CIDEr weighs the references anew for every set of outputs; here the vectors
of a test set are kept for the next method. The tests hold both to the package's values.

The official scripts cut texts with Stanford's PTB tokenizer (Java) and drop punctuation. `e2e_rougeL` and `e2e_cider`
do the same with nltk's Treebank tokenizer, mended where the two differ most: full stops inside a text, currency signs
and ranges of numbers. What is left is a difference of at most 0.05 points of ROUGE-L and 0.006 of CIDEr on six systems
of the challenge.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from .lcs import lcs_length
from .statistics import Statistics, mean_of
from .words import bleu_tokenizer, lower_cutter, ngrams

BETA = 1.2  # of ROUGE-L
CIDER_ORDER, SIGMA = 4, 6.0
PUNCTUATION = {"''", "'", "``", "`", "-LRB-", "-RRB-", ".", "?", "!", ",", ":", "-", "--", "...", ";"}
_STOP = re.compile(r"(?<=[^\s.])\.(?=\s)")
_CURRENCY = re.compile(r"[£$€]")
_RANGE = re.compile(r"(?<=\d)-(?=\d)")


def statistics(name: str, outputs: Sequence[str], references: Sequence[Sequence[str]], language: str) -> Statistics:
    """`cider` (tokens of sacreBLEU's tokenizer, lower case), `e2e_cider` or `e2e_rougeL` (Treebank tokens)."""
    cut, label = _sacrebleu_cut(language) if name == "cider" else (treebank, "treebank")
    if name == "e2e_rougeL":
        pairs = zip(outputs, references, strict=True)
        values = [100 * rouge_l(cut(output), [cut(text) for text in group]) for output, group in pairs]
        return mean_of(values, f"{name}|beta:{BETA}|best precision and recall|case:lc|tok:{label}")
    values = _cider(cut, outputs, references)
    return mean_of(values, f"{name}|CIDEr-D|n:{CIDER_ORDER}|sigma:{SIGMA}|case:lc|tok:{label}")


def _cider(cut: Callable[[str], str], outputs, references) -> np.ndarray:
    """CIDEr-D of each example, on 0-10."""
    weigh, groups = _weighed(cut, tuple(map(tuple, references)))
    values = []
    for output, group in zip(outputs, groups, strict=True):
        vector = weigh(ngrams(cut(output).split(), CIDER_ORDER))
        values.append(10 * np.mean([_similarity(vector, other) for other in group]))
    return np.array(values)


@lru_cache(maxsize=4)
def _weighed(cut: Callable[[str], str], references: tuple[tuple[str, ...], ...]):
    """The tf-idf weighing of this set of references, and the references' vectors, example by example."""
    counts = [[ngrams(cut(text).split(), CIDER_ORDER) for text in group] for group in references]
    frequency = Counter(gram for group in counts for gram in set().union(*group))
    examples = math.log(len(references))

    def weigh(grams: Counter) -> _Vector:
        weights = {gram: n * (examples - math.log(max(1, frequency[gram]))) for gram, n in grams.items()}
        squares = [0.0] * CIDER_ORDER
        for gram, weight in weights.items():
            squares[len(gram) - 1] += weight**2
        return _Vector(weights, [math.sqrt(s) for s in squares], sum(n for g, n in grams.items() if len(g) == 2))

    return weigh, [[weigh(grams) for grams in group] for group in counts]


class _Vector(NamedTuple):
    weights: dict[tuple[str, ...], float]
    norms: list[float]  # by order
    length: int  # in bigrams, as pycocoevalcap counts it


def _similarity(output: _Vector, reference: _Vector) -> float:
    """Clipped cosine, averaged over the orders of n-grams, less a Gaussian penalty on the difference in length."""
    products = [0.0] * CIDER_ORDER
    for gram, weight in output.weights.items():
        other = reference.weights.get(gram)
        if other is not None:
            products[len(gram) - 1] += min(weight, other) * other
    norms = (a * b for a, b in zip(output.norms, reference.norms, strict=True))
    cosines = [product / norm if norm else 0.0 for product, norm in zip(products, norms, strict=True)]
    return math.exp(-((output.length - reference.length) ** 2) / (2 * SIGMA**2)) * sum(cosines) / CIDER_ORDER


def rouge_l(output: str, group: Sequence[str]) -> float:
    """ROUGE-L of space-separated tokens as in the captioning scripts: best precision and best recall, F with BETA."""
    tokens, others = output.split(), [text.split() for text in group]
    lengths = [lcs_length(other, tokens) for other in others]
    precision = max(lengths) / max(len(tokens), 1)
    recall = max(length / max(len(other), 1) for length, other in zip(lengths, others, strict=True))
    if not precision or not recall:
        return 0.0
    return (1 + BETA**2) * precision * recall / (recall + BETA**2 * precision)


@lru_cache(maxsize=1 << 16)
def treebank(text: str) -> str:
    """Lower-case Treebank tokens without punctuation (unless there is nothing else), joined by spaces."""
    text = _RANGE.sub(" - ", _CURRENCY.sub(" # ", _STOP.sub(" . ", text.lower())))
    tokens = _treebank().tokenize(text)
    return " ".join([token for token in tokens if token not in PUNCTUATION] or tokens)


@lru_cache(maxsize=1)
def _treebank():
    from nltk.tokenize import TreebankWordTokenizer

    return TreebankWordTokenizer()


def _sacrebleu_cut(language: str) -> tuple[Callable[[str], str], str]:
    tokenizer = bleu_tokenizer(language)
    return lower_cutter(tokenizer), tokenizer
