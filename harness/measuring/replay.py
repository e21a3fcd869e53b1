"""An exit rule timed on weights that are not its own: it is asked as ever, and leaves where its own run did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from ..backbone import Backbone
from ..method import EarlyExit


@dataclass(frozen=True)
class Replay(EarlyExit):
    """The rule computes its every check, whose answer is then set aside for the recorded one.

    Args:
        rule: the method whose exits were recorded.
        exits: for each row of the batch the layers it needed, step by step; a shorter record starts over. A row without
            any (its output was one token) runs every layer.
    """

    name: ClassVar[str] = "replay"
    rule: EarlyExit
    exits: tuple[tuple[int, ...], ...]

    @property
    def kv_policy(self) -> str:
        """The rule's."""
        return self.rule.kv_policy

    def should_exit(self, layer: int, state) -> torch.BoolTensor:
        answer = self.rule.should_exit(layer, state)
        depths = [steps[(state.step - 1) % len(steps)] if steps else self.num_layers for steps in self.exits]
        return torch.tensor([layer + 1 >= depth for depth in depths], device=answer.device)


def with_classifier(backbone: Backbone) -> Backbone:
    """The same model, with an exit classifier of zeros where it has none: its answers are not used, its time counts."""
    if backbone.exit_classifier is not None:
        return backbone
    classifier = torch.zeros(backbone.config.hidden_size + 1)
    return Backbone(backbone.model, backbone.tokenizer, backbone.name, classifier)
