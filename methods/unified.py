"""Unified Layer Skipping: a fixed, balanced subset that depends on the target speed-up only (arXiv 2404.06954)."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor
from typing import Literal

from harness import LayerSchedule, register_method
from harness.errors import UsageError


@register_method("unified")
@dataclass(frozen=True)
class Unified(LayerSchedule):
    """The same kept layers at every output token; the prompt runs all layers.

    `selection="official"` is the authors' rule; off integers it leaves gaps, so `"balanced"` (our choice) spaces the
    kept layers evenly.
    """

    target: float
    selection: Literal["official", "balanced"] = "official"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.target >= 1:  # NaN fails too
            raise UsageError(f"unified: target must be at least 1, not {self.target!r}")
        kept_layers(self.num_layers, self.target, self.selection)

    @classmethod
    def for_target(cls, num_layers: int, target: float, lengths=None, **parameters) -> Unified:
        """The target is the method's own parameter."""
        return cls(num_layers, **{**parameters, "target": target})

    def layers(self, step: int) -> list[int]:
        return kept_layers(self.num_layers, self.target, self.selection)


def kept_layers(num_layers: int, target: float, selection: str) -> list[int]:
    """Indices of the kept layers, ascending; raises UsageError if the official rule would keep fewer than two."""
    if selection == "balanced":
        kept = min(num_layers, max(2, floor(num_layers / target + 0.5)))
        return sorted({floor(i * (num_layers - 1) / max(kept - 1, 1) + 0.5) for i in range(kept)})
    kept = floor(num_layers / target)
    if kept < 2:
        raise UsageError(
            f"unified: the official rule keeps {kept} of {num_layers} layers at {target:g}x, but it needs two, the "
            f"first and the last; use a target up to {num_layers / 2:g} or selection='balanced'"
        )
    interval = floor(num_layers / (kept - 1))
    between = [i for i in range(1, num_layers - 1) if i % interval == 0][: kept - 2]
    return [0, *between, num_layers - 1]
