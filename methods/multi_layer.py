"""A fixed exit after k layers, for the prompt and every output token."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

from harness import LayerSchedule, register_method
from harness.errors import UsageError


@register_method("multi_layer")
@dataclass(frozen=True)
class MultiLayer(LayerSchedule):
    """The first `exit_layers` layers, then final norm and head: what a smaller network would do.

    Trained as a multi-exit network, so one checkpoint serves every k.
    """

    exit_layers: int

    speed_parameters: ClassVar = ("exit_layers",)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.exit_layers <= self.num_layers:
            raise UsageError(f"multi_layer: exit_layers must lie in 1..{self.num_layers}, not {self.exit_layers}")

    @classmethod
    def for_target(cls, num_layers: int, target: float, lengths=None) -> MultiLayer:
        """k = max(1, floor(N/s + 1/2))."""
        return cls(num_layers, max(1, math.floor(num_layers / target + 0.5)))

    def prompt_layers(self) -> range:
        return range(self.exit_layers)

    def layers(self, step: int) -> range:
        return range(self.exit_layers)

    def recipe(self, horizon: int) -> dict:
        return {"objective": "multi_exit"}
