"""Prompt batches: whatever side they were padded on, the engine sees them left-padded."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from ..errors import UsageError


class PromptBatch(NamedTuple):
    """Left-padded prompts: ids and mask [batch, columns], and each row's length."""

    ids: Tensor
    mask: Tensor
    lengths: list[int]


def left_padded(input_ids: Tensor, attention_mask: Tensor | None, pad_id: int) -> PromptBatch:
    """Move every row's tokens to the right end; padding may stand anywhere, even between tokens.

    Raises UsageError for shapes that do not fit and for rows without a token.
    """
    if input_ids.ndim != 2 or input_ids.shape[0] == 0 or input_ids.is_floating_point():
        raise UsageError(f"input_ids must be integers [batch, tokens], not {_describe(input_ids)}")
    if attention_mask is None:
        attention_mask = torch.ones_like(input_ids)
    if attention_mask.shape != input_ids.shape:
        raise UsageError(
            f"attention_mask {_describe(attention_mask)} does not fit input_ids {_describe(input_ids)}; "
            "both are [batch, tokens]"
        )
    mask = attention_mask.to(input_ids.device).bool()
    lengths = mask.sum(1)
    if not bool((lengths > 0).all()):
        raise UsageError(f"prompt {int(lengths.argmin())} of the batch is empty; every row needs at least one token")
    order = torch.argsort(mask.long(), dim=1, stable=True)  # padding first, tokens in their order after it
    ids, mask = input_ids.gather(1, order), mask.gather(1, order)
    columns = int(lengths.max())
    ids = ids[:, -columns:].masked_fill(~mask[:, -columns:], pad_id)
    return PromptBatch(ids, mask[:, -columns:].long(), lengths.tolist())


def _describe(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"
