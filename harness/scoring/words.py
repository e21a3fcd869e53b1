"""Words by language, and the check that a text is in the script its language says."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache

from ..errors import UsageError
from .languages import base_language
from .names import Unavailable

# written without spaces between words: a character is the unit
UNSPACED = {"zh", "ja", "th", "lo", "km", "my", "shn", "bo", "dz", "ii"}
# Thai, Lao, Tibetan and Burmese; Khmer and its symbols; Burmese and Shan extensions. Chinese, Japanese and Yi are wide.
_UNSPACED_BLOCKS = (
    ("\u0e00", "\u109f"),
    ("\u1780", "\u17ff"),
    ("\u19e0", "\u19ff"),
    ("\ua9e0", "\ua9ff"),
    ("\uaa60", "\uaa7f"),
)
LATIN = {"en", "de", "fr", "ro", "es", "it", "nl", "pt", "cs", "pl", "sv", "da", "fi", "hu", "tr", "et", "lt", "lv"}
LATIN |= {"af", "ca", "cy", "eu", "ga", "gl", "hr", "id", "is", "la", "lb", "mt", "nb", "nn", "no", "sk", "sl", "sq"}
LATIN |= {"sw", "vi"}
BLEU_TOKENIZERS = {"zh": "zh", "ja": "ja-mecab", "ko": "ko-mecab"} | dict.fromkeys(UNSPACED - {"zh", "ja"}, "char")
LINE_MARKS = ("<n>", "<q>")
ZERO_WIDTH_SPACE = "\u200b"  # between words of Khmer, Thai and Burmese, where a line may break
# not after an initial or a title; a closing quotation mark stays with its sentence
_SENTENCE_END = re.compile(
    r"""(?<=[.!?])(?<!\b[A-Z]\.)(?<!\bMr\.)(?<!\bMs\.)(?<!\bDr\.)(?<!\bSt\.)(?<!\bMrs\.)\s+"""
    r"""|(?<=[.!?]["'”’)])\s+|(?<=[。！？])"""
)


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
    text = text.replace(ZERO_WIDTH_SPACE, " ")
    return "".join(f" {c} " if is_unspaced(c) else c for c in text).split()


def is_unspaced(character: str) -> bool:
    """Whether a character belongs to a script written without spaces (or is its full- or half-width punctuation)."""
    if any(first <= character <= last for first, last in _UNSPACED_BLOCKS):
        return True
    return unicodedata.east_asian_width(character) in ("W", "F", "H")


def with_newlines(text: str) -> str:
    """The text with `<n>`, `<q>` and other line ends as newlines."""
    for mark in LINE_MARKS:
        text = text.replace(mark, "\n")
    return text.replace("\r\n", "\n").replace("\r", "\n")


def split_sentences(text: str) -> list[str]:
    """Sentences by their end marks: a full stop, question or exclamation mark before white space."""
    return [part for part in _SENTENCE_END.split(text) if part.strip()]


def check_script(references: Sequence[Sequence[str]], language: str) -> None:
    """Refuse texts whose script the language's tokenizers would throw away or not cut, which scores 0 without a word.

    Each reference that has letters counts once, however long it is.
    """
    base = base_language(language)
    if base in UNSPACED or base == "ko":
        return
    scripts = Counter(_script(text) for group in references for text in group)
    scripts.pop(None, None)
    wrong = sum(scripts.values()) - scripts["Latin"] if base in LATIN else scripts["unspaced"]
    if 2 * wrong <= sum(scripts.values()):
        return
    found = "are not in Latin letters" if base in LATIN else "are in a script without spaces between words"
    raise UsageError(
        f"language is {language!r}, but most references {found}; name the language of the outputs, such as "
        "language='zh'"
    )


def _script(text: str) -> str | None:
    """`Latin`, `unspaced` or `other`, whichever has most of the text's letters; None without letters."""
    if text.isascii():  # nearly always, and counting is slow
        return "Latin" if any(map(str.isalpha, text)) else None
    letters = Counter(_kind(character) for character in text if character.isalpha())
    return max(letters, key=letters.__getitem__) if letters else None


def _kind(letter: str) -> str:
    if letter < "\u0250" or "\u1e00" <= letter <= "\u1eff":
        return "Latin"
    return "unspaced" if is_unspaced(letter) else "other"
