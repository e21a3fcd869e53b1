"""Schedules and exits that exist to be timed: what they run differs from the baseline by one kind of work each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch

from ..method import EarlyExit, LayerSchedule, Method

READS = 6  # most heads a probe reads in a step: on a large vocabulary a head costs as much as many layers


@dataclass(frozen=True)
class Prefix(LayerSchedule):
    """The first `depth` layers: fewer layers, and nothing in their place."""

    name: ClassVar[str] = "probe: fewer layers"
    depth: int

    def layers(self, step: int) -> range:
        return range(self.depth)


@dataclass(frozen=True)
class PrefixAndKeys(Prefix):
    """The same, and keys and values alone in all other layers."""

    name: ClassVar[str] = "probe: keys and values only"
    kv_policy: ClassVar[str] = "propagate"


@dataclass(frozen=True)
class Asking(EarlyExit):
    """All layers, asked after each but the last and never left; the head is read at the first `reads` of them."""

    name: ClassVar[str] = "probe: asked"
    reads: int

    def should_exit(self, layer: int, state) -> torch.BoolTensor:
        if layer < self.reads:
            state.logits()
        return torch.zeros(len(state.hidden), dtype=torch.bool, device=state.hidden.device)


def probes(num_layers: int) -> dict[str, Method]:
    """The probes by name; none for a model of one layer, where no layer can be left out."""
    if num_layers < 2:
        return {}
    depth = max(1, num_layers // 4)
    return {
        "fewer": Prefix(num_layers, depth),
        "keys": PrefixAndKeys(num_layers, depth),
        "asked": Asking(num_layers, 0),
        "read": Asking(num_layers, min(num_layers - 1, READS)),
    }
