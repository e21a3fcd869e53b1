"""What passes of the body have in common: the mask from positions, and the prefill."""

from __future__ import annotations

import torch
from torch import Tensor

from ..backbone import Backbone
from ..backbone.masked import additive, row_positions
from .prompts import PromptBatch
from .steppers import Stepper


def position_mask(positions: Tensor, slots: int, dtype: torch.dtype) -> Tensor:
    """Additive mask [rows, 1, columns, slots] of queries at positions [rows, columns]; a key's slot is its position."""
    visible = torch.arange(slots, device=positions.device) <= positions[:, None, :, None]
    return additive(visible, dtype)


def prefill(backbone: Backbone, stepper: Stepper, prompts: PromptBatch) -> Tensor:
    """Run the prompts; logits [batch, vocabulary] of the first output token."""
    positions = row_positions(prompts.mask)
    stepper.begin_prompt(position_mask(positions, stepper.cache.end, backbone.dtype))  # padding sees slot 0
    hidden = backbone.run_body(prompts.ids, positions, stepper.cache)
    stepper.cache.commit()
    return backbone.head(hidden[:, -1])
