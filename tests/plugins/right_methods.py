"""Methods that keep the contract in ways that the built-in ones do not need."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import ClassVar

import torch

from harness import EarlyExit, LayerSchedule, Speculative, UsageError, register_method


@register_method("right_required")
@dataclass(frozen=True)
class Required(LayerSchedule):
    """Has a parameter without a default, and no target."""

    keep: int

    def __post_init__(self):
        super().__post_init__()
        if not 1 <= self.keep <= self.num_layers:
            raise UsageError(f"right_required: keep must lie in 1..{self.num_layers}, not {self.keep}")

    def layers(self, step):
        return range(self.keep)


@register_method("right_value_error")
@dataclass(frozen=True)
class OnFiveLayers(LayerSchedule):
    """Refuses models with Python's own error."""

    def __post_init__(self):
        super().__post_init__()
        if self.num_layers != 5:
            raise ValueError("made for five layers")

    def layers(self, step):
        return range(self.num_layers)


@register_method("right_deep")
@dataclass(frozen=True)
class Deep(EarlyExit):
    """For models of 12 layers on."""

    def __post_init__(self):
        super().__post_init__()
        if self.num_layers < 12:
            raise UsageError("right_deep: needs 12 layers")

    def should_exit(self, layer, state):
        return (state.hidden[:, 0] > 0) & (layer > 8)


@register_method("right_very_deep_pipeline")
@dataclass(frozen=True)
class VeryDeepPipeline(Speculative):
    """A pipeline for models of more than 12 layers."""

    pipelined = True

    def __post_init__(self):
        super().__post_init__()
        if self.num_layers <= 12:
            raise UsageError("right_very_deep_pipeline: needs more than 12 layers")


@register_method("right_whole_number")
@dataclass(frozen=True)
class Patience(EarlyExit):
    """Its search runs over whole numbers."""

    patience: int = 2
    search: ClassVar = ("patience", 1, 6)

    def should_exit(self, layer, state):
        return torch.full((len(state.hidden),), layer + 1 >= self.patience)


@register_method("right_cached")
@dataclass(frozen=True)
class Cached(LayerSchedule):
    """Computes its layers once; defaults, static methods and further arguments are all callable by the engine."""

    @functools.lru_cache  # noqa: B019
    def layers(self, step, *more):
        return tuple(range(0, self.num_layers, 2))

    @staticmethod
    def for_target(num_layers, target, lengths=None):
        return Cached(num_layers)

    def recipe(self, *horizon):
        return {"objective": "multi_exit"}
