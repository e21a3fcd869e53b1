"""How far outputs agree in low precision, where the order of additions decides close calls.

A lossless method's with sequential greedy decoding, and any method's rows in a batch with the same rows alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..backbone import Backbone, masked_forward
from ..method import Method
from ..method.parameters import load_method
from .loop import decode
from .prompts import left_padded


@dataclass(frozen=True)
class Agreement:
    """Outputs held against those decoded otherwise in the same dtype.

    `rows` outputs of `tokens` tokens in all; `equal_rows` agree to their end, `equal_tokens` up to each row's first
    difference. `margins` hold, for each row that differs from sequential greedy decoding, how far apart the two best
    logits are there.
    """

    rows: int
    equal_rows: int
    tokens: int
    equal_tokens: int
    margins: tuple[float, ...]

    @classmethod
    def over(cls, parts: Sequence[Agreement]) -> Agreement:
        """All of several taken together."""
        sums = (sum(getattr(p, name) for p in parts) for name in ("rows", "equal_rows", "tokens", "equal_tokens"))
        return cls(*sums, tuple(margin for p in parts for margin in p.margins))

    def __str__(self) -> str:
        text = f"{self.equal_rows} of {self.rows} outputs equal, {self.equal_tokens} of {self.tokens} tokens"
        if not self.margins:
            return text
        return f"{text}; the two best logits at the first difference are at most {max(self.margins):.2g} apart"


def greedy_agreement(
    backbone: Backbone, method: Method, input_ids: Tensor, attention_mask: Tensor | None, max_new_tokens: int
) -> Agreement:
    """Decode prompts [batch, tokens] with a method and with the whole model, and compare the tokens."""
    full = load_method("full", backbone.num_layers)
    ours, theirs = (decode(backbone, m, input_ids, attention_mask, max_new_tokens) for m in (method, full))
    prompts = left_padded(backbone, input_ids, attention_mask)
    parts = []
    for row, length in enumerate(theirs.lengths.tolist()):
        true = theirs.tokens[row, :length]
        same = _equal_tokens(true, ours.tokens[row, :length])
        prompt = prompts.ids[row, prompts.mask[row].bool()]
        margins = () if same == length else (_margin(backbone, torch.cat((prompt, true[:same]))),)
        parts.append(Agreement(1, int(same == length), length, same, margins))
    return Agreement.over(parts)


def batch_agreement(
    backbone: Backbone, method: Method, input_ids: Tensor, attention_mask: Tensor, max_new_tokens: int
) -> Agreement:
    """Decode prompts [batch, tokens] as one batch and each row alone, and compare the tokens."""
    together, parts = decode(backbone, method, input_ids, attention_mask, max_new_tokens), []
    for row in range(len(input_ids)):
        alone = decode(backbone, method, input_ids[row : row + 1], attention_mask[row : row + 1], max_new_tokens)
        length = int(alone.lengths[0])
        same = _equal_tokens(alone.tokens[0, :length], together.tokens[row, :length])
        parts.append(Agreement(1, int(same == length), length, same, ()))
    return Agreement.over(parts)


def _equal_tokens(true: Tensor, other: Tensor) -> int:
    """How many tokens of two outputs [tokens] are the same up to the first difference."""
    return int((true[: len(other)] == other).long().cumprod(0).sum())


@torch.inference_mode()
def _margin(backbone: Backbone, ids: Tensor) -> float:
    """How far apart the two best logits after a sequence [tokens] are."""
    row = ids.unsqueeze(0)
    hidden = masked_forward(backbone, row, torch.ones_like(row), [row.shape[1]] * backbone.num_layers)
    best = backbone.head(hidden[0, -1]).float().topk(2).values
    return float(best[0] - best[1])
