"""CALM-DEC: leave when confident (CALM, arXiv 2207.07061, on a decoder-only model)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from harness import EarlyExit, register_method
from harness.errors import UsageError


@register_method("calm")
@dataclass(frozen=True)
class Calm(EarlyExit):
    """Exit at the first layer whose confidence reaches the threshold.

    `confidence="softmax"`: top-1 minus top-2 probability of the head at that layer. `"state"` (CALM-DEC's default,
    after SkipDecode's authors): cosine of this and the previous layer's hidden state, first asked after the second
    layer. `"classifier"`: sigmoid of one linear map of the hidden state, shared by all layers, trained on "arg-max here
    equals arg-max at the last layer" with the model frozen; its weights come with the checkpoint.

    The threshold at step t is clip(0.9 λ + 0.1 exp(-τ t / T), 0, 1) with T the maximum output length; `decay="code"`
    multiplies the exponential by λ as the official code does, `"none"` keeps λ at every step. Given τ alone, it decays
    as in the paper. Skipped layers get the exit state's own keys and values (`kv="propagate"`); `kv="oracle"` computes
    their true states instead, untimed, to price that approximation.
    """

    confidence: Literal["softmax", "state", "classifier"] = "state"
    threshold: float = 0.9
    tau: float = 0.0
    decay: Literal["paper", "code", "none"] | None = None  # `paper` where tau says how, else `none`
    min_exit_layer: int = 1
    exit_interval: int = 1
    kv: Literal["propagate", "oracle"] = "propagate"

    search: ClassVar = ("threshold", 0.0, 1.0)
    speed_parameters: ClassVar = ("threshold",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.decay is None:
            object.__setattr__(self, "decay", "paper" if self.tau > 0 else "none")
        if not 0 <= self.threshold <= 1:
            raise UsageError(f"calm: threshold must lie in [0, 1], not {self.threshold!r}")
        if not self.tau >= 0 or self.min_exit_layer < 1 or self.exit_interval < 1:
            raise UsageError(
                f"calm: needs tau >= 0, min_exit_layer >= 1 and exit_interval >= 1, not tau={self.tau} "
                f"min_exit_layer={self.min_exit_layer} exit_interval={self.exit_interval}"
            )

    def recipe(self, horizon: int) -> dict:
        return {**super().recipe(horizon), **({"classifier": True} if self.confidence == "classifier" else {})}

    @staticmethod
    def never_exits(num_layers: int) -> dict:
        """Parameters under which it is the full model: what is left if no threshold keeps a promise."""
        return {"threshold": 1.0, "min_exit_layer": num_layers}

    @property
    def kv_policy(self) -> str:
        return self.kv

    def should_exit(self, layer: int, state):
        import torch

        if not self._asks(layer):
            return torch.zeros(len(state.hidden), dtype=torch.bool, device=state.hidden.device)
        return self._confidence(state) >= self.threshold_at(state.step, state.max_steps + 1)

    def _asks(self, layer: int) -> bool:
        depth = layer + 1
        first = max(self.min_exit_layer, 2 if self.confidence == "state" else 1)
        return depth >= first and (depth - first) % self.exit_interval == 0

    def _confidence(self, state):
        if self.confidence == "state":
            from torch.nn.functional import cosine_similarity

            return cosine_similarity(state.hidden, state.previous, dim=-1)
        if self.confidence == "classifier":
            weights, bias = state.exit_classifier[:-1], state.exit_classifier[-1]
            return (state.hidden @ weights + bias).sigmoid()
        top = state.logits().softmax(-1).topk(2, dim=-1).values
        return top[:, 0] - top[:, 1]

    def threshold_at(self, step: int, max_length: int) -> float:
        """The threshold of decode step `step` of an output of at most `max_length` tokens."""
        if self.decay == "none":
            return self.threshold
        falling = math.exp(-self.tau * step / max_length)
        scale = self.threshold if self.decay == "code" else 1.0
        return min(max(0.9 * self.threshold + 0.1 * scale * falling, 0.0), 1.0)
