"""ROUGE-1, -2, -L and -Lsum by the package rouge-score: F1 of the best reference, averaged over examples.

English words are stemmed as that package does. Its own tokenizer keeps the letters a-z only, so other alphabets get a
Unicode word tokenizer without stemming, in which vowel signs and other marks belong to their letters, and scripts
without spaces one token a character. A text of which nothing would be left (Greek among English, punctuation alone) is
cut by the next of these instead: words of any alphabet, then characters.

ROUGE-Lsum compares sentences, which are lines; `<n>` and `<q>`, which some data sets write for a line break, become
one. Where one text has lines and the other none, the other is cut after its sentences, so that a model that writes no
line breaks is compared fairly.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np

from .languages import base_language
from .lcs import lcs_length
from .statistics import Statistics, mean_of
from .words import UNSPACED, is_unspaced, split_sentences, with_newlines, words

Cut = Callable[[str], str]  # a text as its tokens, joined by spaces; its lines stay


def statistics(name: str, outputs: Sequence[str], references: Sequence[Sequence[str]], language: str) -> Statistics:
    """One of the ROUGE scores, in per cent."""
    cut, label = _cutter(base_language(language))
    pair_score = _longest_subsequence(cut) if name == "rougeL" else _library(name, cut)
    values = [
        max(pair_score(reference, output) for reference in group)
        for output, group in zip(outputs, references, strict=True)
    ]
    lines = "|lines:newline,<n>,<q>,else sentences if the other has lines" if name == "rougeLsum" else ""
    return mean_of(100 * np.array(values), f"{name}|f1|best reference|tok:{label}{lines}|rouge-score:{_version()}")


def _library(name: str, cut: Cut) -> Callable[[str, str], float]:
    """F1 of a reference and an output by rouge-score."""
    from rouge_score.rouge_scorer import RougeScorer

    scorer = RougeScorer([name], tokenizer=_Spaces())
    pair = line_pair if name == "rougeLsum" else flat_pair
    return lambda reference, output: scorer.score(*map(cut, pair(reference, output)))[name].fmeasure


class _Spaces:
    """What rouge-score asks of a tokenizer, for texts that are cut already."""

    tokenize = staticmethod(str.split)


def _longest_subsequence(cut: Cut) -> Callable[[str, str], float]:
    """The same for ROUGE-L, where the package's Python table is ten times as slow: E2E has 4,700 references."""

    def f1(reference: str, output: str) -> float:
        one, two = (cut(text).split() for text in flat_pair(reference, output))
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


# -- tokens ---------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=8)
def _cutter(language: str) -> tuple[Cut, str]:
    """How texts of a language are cut, and its name in signatures."""
    if language == "en":
        return _first_that_leaves_any(_english_words, _unicode_words, list), "rouge-score,porter"
    if language in UNSPACED:
        return _first_that_leaves_any(lambda text: _character_words(text, language), list), "characters,nfc"
    return _first_that_leaves_any(_unicode_words, list), "unicode words,nfc"


def _first_that_leaves_any(*tokenizers: Callable[[str], list[str]]) -> Cut:
    """Cuts by the first tokenizer that finds a token in the text; a text that comes back is not cut again.

    The text as a whole decides: a line of dashes among lines of words has no token, as in rouge-score.
    """

    @lru_cache(maxsize=1 << 16)
    def cut(text: str) -> str:
        for tokenize in tokenizers:
            lines = [" ".join(tokenize(line)) for line in text.split("\n")]
            if any(map(str.strip, lines)):
                return "\n".join(lines)
        return ""

    return cut


def _unicode_words(text: str) -> list[str]:
    """Letters and digits of any alphabet with the marks on them, lower case; accents may be letters of their own."""
    return _word().findall(unicodedata.normalize("NFC", text.lower()))


def _character_words(text: str, language: str) -> list[str]:
    """One token a character, the marks among them; what is left between them, such as Latin, as words."""
    chunks = words(unicodedata.normalize("NFC", text.lower()), language)
    return [word for chunk in chunks for word in ([chunk] if _is_mark(chunk) else _word().findall(chunk))]


def _is_mark(chunk: str) -> bool:
    return len(chunk) == 1 and is_unspaced(chunk) and unicodedata.category(chunk).startswith("M")


def _english_words(text: str) -> list[str]:
    return [_stem(word) for word in re.findall("[a-z0-9]+", text.lower())]


@lru_cache(maxsize=1)
def _word():
    import regex  # Python's own \w leaves out vowel signs and tone marks

    return regex.compile(r"[\p{L}\p{N}][\p{L}\p{N}\p{M}]*")


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
