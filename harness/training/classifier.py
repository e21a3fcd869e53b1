"""CALM's exit classifier: one linear map for all layers, trained with the model frozen (CALM, arXiv 2207.07061)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from ..backbone import Backbone, masked_forward
from .batches import Batch, Pair, batch_plan, collate
from .recipe import Recipe

LEARNING_RATE = 0.02


def train_exit_classifier(backbone: Backbone, batches: Iterable[Batch]) -> Tensor:
    """Weights and bias [width + 1], in float32, of the classifier that `confidence="classifier"` reads.

    Target at each layer but the last: its arg-max equals the last layer's. Loss: binary cross-entropy, averaged over
    positions and then plainly over layers. One step of Adam a batch; inputs are standardised by the first batch's
    statistics, which are folded into the result.
    """
    if backbone.num_layers == 1:  # never asked: the last layer is simply the end
        return torch.zeros(backbone.config.hidden_size + 1)
    classifier = optimizer = mean = spread = None
    for batch in batches:
        hidden, agrees = _examples(backbone, batch)
        if classifier is None:
            mean, spread = hidden.mean((0, 1)), _spread(hidden)
            classifier = torch.zeros(hidden.shape[-1] + 1, device=hidden.device, requires_grad=True)
            optimizer = torch.optim.Adam([classifier], lr=LEARNING_RATE)
        scores = (hidden - mean) / spread @ classifier[:-1] + classifier[-1]
        loss = binary_cross_entropy_with_logits(scores, agrees)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if classifier is None:
        raise ValueError("an exit classifier needs at least one batch")
    weights, bias = classifier.detach()[:-1] / spread, classifier.detach()[-1]
    return torch.cat((weights, (bias - weights @ mean)[None])).cpu()


def fit_exit_classifier(backbone: Backbone, pairs: Sequence[Pair], recipe: Recipe, seed: int) -> Tensor:
    """The classifier [width + 1] of a checkpoint: as many batches, in the same order, as its fine-tuning had."""
    plan = batch_plan(pairs, recipe.batch_size, recipe.steps, seed)
    batches = (collate([pairs[i] for i in places], backbone.fill_id) for places in plan)
    return train_exit_classifier(backbone, (batch.to(backbone.device) for batch in batches))


def _spread(hidden: Tensor) -> Tensor:
    """Standard deviation [width] of hidden states [layers, tokens, width]; 1 where a single one has none."""
    if hidden[..., 0].numel() == 1:
        return torch.ones_like(hidden[0, 0])
    return hidden.std((0, 1)).clamp_min(1e-6)


@torch.no_grad()
def _examples(backbone: Backbone, batch: Batch) -> tuple[Tensor, Tensor]:
    """Hidden states [layers - 1, output tokens, width] and, as 0 or 1, whether their arg-max is the last layer's."""
    states: list[Tensor] = []

    def keep(layer: int, _: Tensor, hidden: Tensor) -> None:
        states.append(hidden.flatten(0, 1)[batch.predicting])

    everywhere = [batch.columns] * backbone.num_layers
    masked_forward(backbone, batch.input_ids, batch.attention_mask, everywhere, keep)
    choices = torch.stack([backbone.exit_head(hidden).argmax(-1) for hidden in states])
    return torch.stack(states[:-1]).float(), (choices[:-1] == choices[-1]).float()
