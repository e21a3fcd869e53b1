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
    kept layers evenly. `train_targets`, if given, trains one checkpoint for all of them, a target drawn at random each
    batch, instead of one checkpoint a target.
    """

    target: float
    selection: Literal["official", "balanced"] = "official"
    train_targets: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        for target in (self.target, *(self.train_targets or ())):
            kept_layers(self.num_layers, target, self.selection)

    @classmethod
    def for_target(cls, num_layers: int, target: float, lengths=None, **parameters) -> Unified:
        """The target is the method's own parameter."""
        return cls(num_layers, **{**parameters, "target": target})

    def layers(self, step: int) -> list[int]:
        return kept_layers(self.num_layers, self.target, self.selection)

    def recipe(self, horizon: int) -> dict:
        if not self.train_targets:
            return super().recipe(horizon)
        sets = [kept_layers(self.num_layers, target, self.selection) for target in sorted(set(self.train_targets))]
        prompt = list(self.prompt_layers())
        return {"objective": "plans", "plans": [{"prompt": prompt, "steps": [layers]} for layers in sets]}


def kept_layers(num_layers: int, target: float, selection: str) -> list[int]:
    """Indices of the kept layers, ascending.

    Raises UsageError for a target below 1 and if the official rule would keep fewer than two layers.
    """
    if not target >= 1:  # NaN fails too
        raise UsageError(f"unified: a target must be at least 1, not {target!r}")
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
