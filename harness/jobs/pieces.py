"""The text behind each output token, so that a report can colour an output by what its tokens cost."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import accumulate


def output_pieces(ids: Sequence[int], tokenizer, text: str) -> list[str]:
    """What each of the output tokens `ids` adds to `text`, which is their `decode_output`; joined they are `text`.

    A character whose bytes are spread over several tokens belongs to the token that completes it, so no piece holds
    half of one. Special tokens, and white space that `decode_output` strips, add nothing.
    """
    alone = [tokenizer.decode([token], skip_special_tokens=True) for token in ids]
    joined = "".join(alone)
    if joined.strip() == text:
        stripped = len(joined) - len(joined.lstrip())
        ends = [end - stripped for end in accumulate(map(len, alone))]
    else:  # tokens whose text depends on those before: how much of the text do the first k of them tell?
        starts = [tokenizer.decode(list(ids[:k]), skip_special_tokens=True).lstrip() for k in range(1, len(ids))]
        ends = [*(len(os.path.commonprefix([start, text])) for start in starts), len(text)]
    return _cut(text, ends)


def _cut(text: str, ends: Sequence[int]) -> list[str]:
    """`text` cut at the given places, which may lie outside it and never go back."""
    pieces, begin = [], 0
    for end in ends:
        end = min(max(end, begin), len(text))
        pieces.append(text[begin:end])
        begin = end
    return pieces
