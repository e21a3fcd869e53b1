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


def left_padded(backbone, input_ids: Tensor, attention_mask: Tensor | None) -> PromptBatch:
    """Move every row's tokens to the right end; padding may stand anywhere, even between tokens.

    Raises UsageError for shapes that do not fit, for rows without a token and for ids the model does not have.
    """
    input_ids = _tensor(input_ids, "input_ids", backbone.device)
    wrong = input_ids.is_floating_point() or input_ids.is_complex() or input_ids.dtype == torch.bool
    if input_ids.ndim != 2 or input_ids.shape[0] == 0 or wrong:
        raise UsageError(f"input_ids must be integers [batch, tokens], not {_describe(input_ids)}")
    if attention_mask is None:
        attention_mask = torch.ones_like(input_ids)
    attention_mask = _tensor(attention_mask, "attention_mask", backbone.device)
    if attention_mask.shape != input_ids.shape:
        raise UsageError(
            f"attention_mask {_describe(attention_mask)} does not fit input_ids {_describe(input_ids)}; "
            "both are [batch, tokens]"
        )
    mask = _checked_mask(attention_mask)
    lengths = mask.sum(1)
    if not bool((lengths > 0).all()):
        raise UsageError(f"prompt {int(lengths.argmin())} of the batch is empty; every row needs at least one token")
    order = torch.argsort(mask.long(), dim=1, stable=True)  # padding first, tokens in their order after it
    ids, mask = input_ids.long().gather(1, order), mask.gather(1, order)
    columns = int(lengths.max())
    ids = ids[:, -columns:].masked_fill(~mask[:, -columns:], backbone.fill_id)
    low, high = int(ids.min()), int(ids.max())
    if low < 0 or high >= backbone.vocabulary:
        raise UsageError(
            f"input_ids hold {low if low < 0 else high}, but model {backbone.name!r} has tokens 0 to "
            f"{backbone.vocabulary - 1}"
        )
    return PromptBatch(ids, mask[:, -columns:].long(), lengths.tolist())


def _checked_mask(attention_mask: Tensor) -> Tensor:
    """The mask as bool, or UsageError if it holds more than 0 and 1; additive masks mean the opposite."""
    values = attention_mask if attention_mask.is_floating_point() else attention_mask.long()
    mask = values != 0
    if bool((values != mask).any()):
        odd = values[values != mask][0].item()
        raise UsageError(f"attention_mask holds 1 at tokens and 0 at padding, and no {odd:g}")
    return mask


def _tensor(values, name: str, device: torch.device) -> Tensor:
    """Tensors as they are; what makes one (lists of equal length, numpy arrays) is taken too."""
    try:
        return torch.as_tensor(values, device=device)
    except (TypeError, ValueError, RuntimeError) as error:
        raise UsageError(f"{name} must be a tensor [batch, tokens], not {values!r:.60}: {error}") from error


def _describe(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} {list(tensor.shape)}"
