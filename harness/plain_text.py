"""Texts as token ids in which data stay data: a post that quotes `</s>` does not end there.

Tokenizers read the names of their special tokens wherever they stand. Only the tokenizer itself, and a prompt's own
template (of a chat, say), may put special tokens into what a model is fed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import NamedTuple

from .errors import UsageError


class _Specials(NamedTuple):
    """`ids` no text may have; the id of `unknown` stands for characters that a tokenizer does not know, too.

    `front` counts the BOS that some put before any text, though told not to.
    """

    ids: frozenset[int]
    unknown: str | None
    front: int

    def written(self, text: str, ids: Sequence[int]) -> bool:
        """Whether the text holds a special token's name that was read as the token."""
        return not self.ids.isdisjoint(ids[self.front :]) or (self.unknown is not None and self.unknown in text)


def texts_ids(texts: Sequence[str], tokenizer) -> list[list[int]]:
    """Token ids of texts of the data, none of them a special token's; no BOS, no EOS.

    Raises UsageError if a text names a special token that this tokenizer cannot read as plain text.
    """
    found = tokenizer(list(texts), add_special_tokens=False)["input_ids"]
    pairs = zip(texts, found, strict=True)
    return [_split(text, tokenizer) if _specials(tokenizer).written(text, ids) else ids for text, ids in pairs]


def prompt_ids(prompt: Callable[[Mapping[str, str]], str], fields: Mapping[str, str], tokenizer) -> list[int]:
    """Token ids of a prompt made of an example's fields: special tokens of the template stay, those in fields are text.

    Raises UsageError as `texts_ids` does, and if both name special tokens, which then cannot be told apart.
    """
    text = prompt(fields)
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    if not _specials(tokenizer).written(text, ids):
        return ids
    blank = {name: "" for name, value in fields.items() if isinstance(value, str) and _is_written(value, tokenizer)}
    if not blank:
        return ids
    if _is_written(prompt({**fields, **blank}), tokenizer):
        raise UsageError(
            f"the field {next(iter(blank))!r} of an example holds a special token of the tokenizer, and so does the "
            f"task's template, which cannot be told apart in {text!r:.60}; write it otherwise in the data"
        )
    return _split(text, tokenizer)


def _is_written(text: str, tokenizer) -> bool:
    return _specials(tokenizer).written(text, tokenizer(text, add_special_tokens=False)["input_ids"])


def _split(text: str, tokenizer) -> list[int]:
    """The ids with special tokens' names cut like other text, which leaves everything else as it was."""
    try:
        ids = tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]
    except TypeError:  # a tokenizer of somebody's own, without that option
        ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    specials = _specials(tokenizer)
    wrong = specials.ids.intersection(ids[specials.front :])
    if wrong:
        names = tokenizer.convert_ids_to_tokens(sorted(wrong)) if hasattr(tokenizer, "convert_ids_to_tokens") else wrong
        raise UsageError(
            f"the text {text!r:.60} holds {', '.join(map(repr, names))}, which this tokenizer reads as a special token "
            "and cannot read as text; write it otherwise in the data"
        )
    return ids


@lru_cache(maxsize=8)
def _specials(tokenizer) -> _Specials:
    named = [getattr(tokenizer, f"{name}_token_id", None) for name in ("bos", "eos", "pad")]
    added = getattr(tokenizer, "added_tokens_decoder", {})  # a chat's marks are special without having a role
    ids = {*named, *getattr(tokenizer, "all_special_ids", ()), *(i for i, t in added.items() if t.special)} - {None}
    empty = tokenizer("", add_special_tokens=False)["input_ids"]
    front = int(named[0] is not None and empty[:1] == named[:1])
    unknown = getattr(tokenizer, "unk_token_id", None)
    if unknown is None or unknown in named[:2]:
        return _Specials(frozenset(ids), None, front)
    return _Specials(frozenset(ids - {unknown}), tokenizer.unk_token, front)
