"""ROUGE-1, -2, -L and -Lsum by the package rouge-score: F1 of the best reference, averaged over examples.

English words are stemmed as that package does. Its own tokenizer keeps the letters a-z only, so other alphabets get a
Unicode word tokenizer without stemming, and scripts without spaces one token a character.

ROUGE-Lsum compares sentences, which are lines; `<n>` and `<q>`, which some data sets write for a line break, become
one. Where one text has lines and the other none, the other is cut after its sentences, so that a model that writes no
line breaks is compared fairly.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from .lcs import lcs_length
from .statistics import Statistics, mean_of
from .words import UNSPACED, base_language, split_sentences, with_newlines, words

_WORD = re.compile(r"[^\W_]+")


def statistics(name: str, outputs: Sequence[str], references: Sequence[Sequence[str]], language: str) -> Statistics:
    """One of the ROUGE scores, in per cent."""
    tokenizer, label = _tokenizer(base_language(language))
    pair_score = _longest_subsequence(tokenizer) if name == "rougeL" else _library(name, tokenizer)
    values = [
        max(pair_score(reference, output) for reference in group)
        for output, group in zip(outputs, references, strict=True)
    ]
    lines = "|lines:newline,<n>,<q>,else sentences if the other has lines" if name == "rougeLsum" else ""
    return mean_of(100 * np.array(values), f"{name}|f1|best reference|tok:{label}{lines}|rouge-score:{_version()}")


def _library(name: str, tokenizer: _Tokenizer) -> Callable[[str, str], float]:
    """F1 of a reference and an output by rouge-score."""
    from rouge_score.rouge_scorer import RougeScorer

    scorer = RougeScorer([name], tokenizer=tokenizer)
    pair = line_pair if name == "rougeLsum" else flat_pair
    return lambda reference, output: scorer.score(*pair(reference, output))[name].fmeasure


def _longest_subsequence(tokenizer: _Tokenizer) -> Callable[[str, str], float]:
    """The same for ROUGE-L, where the package's Python table is ten times as slow: E2E has 4,700 references."""

    def f1(reference: str, output: str) -> float:
        one, two = (tokenizer.tokenize(text) for text in flat_pair(reference, output))
        return 2 * lcs_length(one, two) / max(len(one) + len(two), 1)

    return f1


def flat_pair(reference: str, output: str) -> tuple[str, str]:
    """Both texts with line marks taken for white space."""
    return with_newlines(reference), with_newlines(output)


def line_pair(reference: str, output: str) -> tuple[str, str]:
    """Both texts with one sentence a line; a text without lines is cut only if the other has some."""
    reference, output = flat_pair(reference.strip(), output.strip())
    if ("\n" in reference) == ("\n" in output):
        return reference, output
    return tuple(text if "\n" in text else "\n".join(split_sentences(text)) for text in (reference, output))


@lru_cache(maxsize=8)
def _tokenizer(language: str) -> tuple[_Tokenizer, str]:
    if language == "en":
        return _Tokenizer(_english_words), "rouge-score,porter"
    if language in UNSPACED:
        return _Tokenizer(lambda text: _character_words(text, language)), "characters"
    return _Tokenizer(lambda text: _WORD.findall(text.lower())), "unicode words"


class _Tokenizer:
    """What rouge-score asks of a tokenizer; a text that comes back is not cut again."""

    def __init__(self, cut: Callable[[str], list[str]]) -> None:
        self.tokenize = lru_cache(maxsize=1 << 16)(cut)


def _character_words(text: str, language: str) -> list[str]:
    return [word for chunk in words(text.lower(), language) for word in _WORD.findall(chunk)]


def _english_words(text: str) -> list[str]:
    return [_stem(word) for word in re.findall("[a-z0-9]+", text.lower())]


@lru_cache(maxsize=1 << 18)
def _stem(word: str) -> str:
    return _stemmer().stem(word) if len(word) > 3 else word


@lru_cache(maxsize=1)
def _stemmer():
    from nltk.stem.porter import PorterStemmer

    return PorterStemmer()


def _version() -> str:
    from importlib.metadata import version

    return version("rouge_score")
