"""Words by language, and the check that a text is in the script its language says."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache

from ..errors import UsageError
from .names import Unavailable

UNSPACED = {"zh", "ja", "th", "lo", "km", "my"}  # written without spaces: a character is the unit
LATIN = {"en", "de", "fr", "ro", "es", "it", "nl", "pt", "cs", "pl", "sv", "da", "fi", "hu", "tr", "et", "lt", "lv"}
BLEU_TOKENIZERS = {"zh": "zh", "ja": "ja-mecab", "ko": "ko-mecab"}
LINE_MARKS = ("<n>", "<q>")
# not after an initial or a title; a closing quotation mark stays with its sentence
_SENTENCE_END = re.compile(
    r"""(?<=[.!?])(?<!\b[A-Z]\.)(?<!\bMr\.)(?<!\bMs\.)(?<!\bDr\.)(?<!\bSt\.)(?<!\bMrs\.)\s+"""
    r"""|(?<=[.!?]["'”’)])\s+|(?<=[。！？])"""
)


def base_language(language: str) -> str:
    """`zh` of `zh-CN`; UsageError unless it looks like a language code."""
    base = str(language).lower().replace("_", "-").split("-")[0]
    if not base.isalpha() or not 2 <= len(base) <= 3:
        raise UsageError(f"language must be a code such as 'en' or 'zh', not {language!r}")
    return base


def bleu_tokenizer(language: str) -> str:
    """sacreBLEU's tokenizer for a target language."""
    return BLEU_TOKENIZERS.get(base_language(language), "13a")


@lru_cache(maxsize=4)
def lower_cutter(tokenizer: str) -> Callable[[str], str]:
    """Lower-cases a text and cuts it with one of sacreBLEU's tokenizers, into tokens joined by spaces."""
    return sacrebleu_bleu(tokenizer, lowercase=True)._preprocess_segment


def sacrebleu_bleu(tokenizer: str, lowercase: bool, references: list | None = None):
    """sacreBLEU's BLEU; Unavailable if its tokenizer needs a package that is not here (Japanese, Korean)."""
    from sacrebleu.metrics import BLEU

    options = {"lowercase": lowercase, "effective_order": True, "force": True, "references": references}
    try:
        return BLEU(tokenize=tokenizer, **options)
    except (ImportError, RuntimeError) as error:
        reason = str(error).strip().splitlines()[0]
        raise Unavailable(f"sacreBLEU's tokenizer {tokenizer!r} is not installed ({reason})") from error


def ngrams(tokens: Sequence[str], order: int) -> Counter:
    """All n-grams of up to `order` tokens, with their counts."""
    return Counter(
        tuple(tokens[start : start + n]) for n in range(1, order + 1) for start in range(len(tokens) - n + 1)
    )


def words(text: str, language: str) -> list[str]:
    """Words between white space; in languages written without spaces every character of such a script is a word."""
    if base_language(language) not in UNSPACED:
        return text.split()
    return "".join(f" {c} " if is_unspaced(c) else c for c in text).split()


def is_unspaced(character: str) -> bool:
    """Whether a character belongs to a script written without spaces (or is its full-width punctuation)."""
    return "\u0e00" <= character <= "\u109f" or unicodedata.east_asian_width(character) in ("W", "F")


def with_newlines(text: str) -> str:
    """The text with `<n>`, `<q>` and other line ends as newlines."""
    for mark in LINE_MARKS:
        text = text.replace(mark, "\n")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def split_sentences(text: str) -> list[str]:
    """Sentences by their end marks: a full stop, question or exclamation mark before white space."""
    return [part for part in _SENTENCE_END.split(text) if part.strip()]


def check_script(references: Sequence[Sequence[str]], language: str) -> None:
    """Refuse texts whose script the language's tokenizers would throw away, which scores 0 without a word."""
    base = base_language(language)
    if base not in LATIN:
        return
    letters = latin = 0
    for group in references:
        for text in group:
            if text.isascii():  # nearly always, and counting is slow
                letters, latin = letters + len(text), latin + len(text)
                continue
            for character in text:
                if character.isalpha():
                    letters += 1
                    latin += character < "\u0250"
    if letters and latin < letters / 2:
        raise UsageError(
            f"language is {language!r}, but most letters of the references are not Latin; name the language of the "
            "outputs, such as language='zh'"
        )
