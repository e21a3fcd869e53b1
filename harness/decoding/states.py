"""What an exit rule sees after a layer."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from ..backbone import Backbone
from ..errors import UsageError


@dataclass
class ExitState:
    """Tensors have one row for each row of the batch.

    Attributes:
        hidden, previous: hidden states [batch, width] after this layer and before it.
        step, max_steps: the decode step, from 1, and how many there are at most.
        last: hidden states after the last layer, known in hindsight only.
    """

    backbone: Backbone
    hidden: Tensor
    previous: Tensor
    step: int
    max_steps: int
    last: Tensor | None = None

    def logits(self) -> Tensor:
        """The exit head's logits [batch, vocabulary] at this layer."""
        return self.backbone.exit_head(self.hidden)

    def last_logits(self) -> Tensor:
        """Logits [batch, vocabulary] after the last layer: in hindsight, so only under `kv_policy = "oracle"`."""
        if self.last is None:
            raise UsageError('last_logits() is known only under kv_policy "oracle", which decides in hindsight')
        return self.backbone.exit_head(self.last)

    @property
    def exit_classifier(self) -> Tensor:
        """CALM's classifier [width + 1], weights and bias; raises UsageError if the checkpoint has none."""
        return self.backbone.require_exit_classifier()
