"""Words by language, and the check that a text is in the script its language says."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from ..errors import UsageError

UNSPACED = {"zh", "ja", "th", "lo", "km", "my"}  # written without spaces: a character is the unit
LATIN = {"en", "de", "fr", "ro", "es", "it", "nl", "pt", "cs", "pl", "sv", "da", "fi", "hu", "tr", "et", "lt", "lv"}
BLEU_TOKENIZERS = {"zh": "zh", "ja": "ja-mecab", "ko": "ko-mecab"}
LINE_MARKS = ("<n>", "<q>")


def base_language(language: str) -> str:
    """`zh` of `zh-CN`; UsageError unless it looks like a language code."""
    base = str(language).lower().replace("_", "-").split("-")[0]
    if not base.isalpha() or not 2 <= len(base) <= 3:
        raise UsageError(f"language must be a code such as 'en' or 'zh', not {language!r}")
    return base


def bleu_tokenizer(language: str) -> str:
    """sacreBLEU's tokenizer for a target language."""
    return BLEU_TOKENIZERS.get(base_language(language), "13a")


def words(text: str, language: str) -> list[str]:
    """Words between white space; in languages written without spaces every character of such a script is a word."""
    if base_language(language) not in UNSPACED:
        return text.split()
    return "".join(f" {c} " if is_unspaced(c) else c for c in text).split()


def is_unspaced(character: str) -> bool:
    """Whether a character belongs to a script written without spaces (or is its full-width punctuation)."""
    return (
        ord(character) >= 0x0E00
        and unicodedata.east_asian_width(character) in "WF"
        or "\u0e00" <= character <= "\u109f"
    )


def check_script(references: Sequence[Sequence[str]], language: str) -> None:
    """Refuse texts whose script the language's tokenizers would throw away, which scores 0 without a word."""
    base = base_language(language)
    if base not in LATIN:
        return
    letters = latin = 0
    for group in references:
        for text in group:
            for character in text:
                if character.isalpha():
                    letters += 1
                    latin += character < "\u0250"
    if letters and latin < letters / 2:
        raise UsageError(
            f"language is {language!r}, but most letters of the references are not Latin; name the language of the "
            "outputs, such as language='zh'"
        )
