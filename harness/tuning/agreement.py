"""How early a model's mind is made up: each layer's arg-max against the last layer's, by output position."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..backbone import Backbone, masked_forward
from ..training.batches import Batch, Pair, collate


@torch.inference_mode()
def layer_agreement(backbone: Backbone, pairs: Sequence[Pair], batch_size: int = 32) -> Tensor:
    """Share [layers, output positions] of reference tokens at which a layer's arg-max is the last layer's.

    The model runs at full depth on the references. Positions count from the first output token, which the prompt's
    last place predicts.
    """
    longest = max(len(pair.output) for pair in pairs)
    hits = torch.zeros(backbone.num_layers, longest, dtype=torch.double)
    counts = torch.zeros(longest, dtype=torch.double)
    for start in range(0, len(pairs), batch_size):
        batch = collate(pairs[start : start + batch_size], backbone.fill_id).to(backbone.device)
        agrees = _agrees(backbone, batch)
        for layer, row in enumerate(agrees):
            hits[layer].index_add_(0, batch.steps.cpu(), row)
        counts += torch.bincount(batch.steps.cpu(), minlength=longest)
    return hits / counts


def _agrees(backbone: Backbone, batch: Batch) -> Tensor:
    """1 or 0 [layers, output tokens]."""
    choices: list[Tensor] = []

    def choose(layer: int, _: Tensor, hidden: Tensor) -> None:
        choices.append(backbone.exit_head(hidden.flatten(0, 1)[batch.predicting]).argmax(-1))

    masked_forward(backbone, batch.input_ids, batch.attention_mask, [batch.columns] * backbone.num_layers, choose)
    return torch.stack([choice == choices[-1] for choice in choices]).double().cpu()
