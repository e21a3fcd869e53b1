"""A control: random layers in the number a target asks for."""

from __future__ import annotations

import random
from dataclasses import dataclass
from math import floor
from typing import Literal

from harness import LayerSchedule, load_method, register_method
from harness.errors import UsageError


@register_method("random_skip")
@dataclass(frozen=True)
class RandomSkip(LayerSchedule):
    """The first and the last layer and a seeded random rest. Claims are against the mean of at least 5 seeds.

    `like="unified"`: one set, constant over steps. `like="skipdecode"`: prefixes of one seeded layer order, as long as
    SkipDecode's budgets.
    """

    target: float
    skip_seed: int = 0
    like: Literal["unified", "skipdecode"] = "unified"
    prompt_size: int = 0
    max_length: int = 64

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.target >= 1:  # NaN fails too
            raise UsageError(f"random_skip: target must be at least 1, not {self.target!r}")
        between = list(range(1, self.num_layers - 1))
        random.Random(f"{self.num_layers}/{self.skip_seed}").shuffle(between)
        object.__setattr__(self, "_order", [*sorted({0, self.num_layers - 1}), *between])
        object.__setattr__(self, "_model", self._skipdecode() if self.like == "skipdecode" else None)

    def _skipdecode(self):
        horizon = {"prompt_size": self.prompt_size, "max_length": self.max_length}
        return load_method("skipdecode", self.num_layers, target=self.target, **horizon)

    @classmethod
    def for_target(cls, num_layers: int, target: float, lengths=None, **parameters) -> RandomSkip:
        """As many layers as the target asks for; the horizon from the training lengths."""
        if lengths is not None and parameters.get("like") == "skipdecode":
            parameters.setdefault("prompt_size", lengths.prompt)
            parameters.setdefault("max_length", parameters["prompt_size"] + lengths.output)
        return cls(num_layers, **{**parameters, "target": target})

    def layers(self, step: int) -> list[int]:
        if self._model:
            return sorted(self._order[: self._model.budget(step)])
        return sorted(self._order[: max(floor(self.num_layers / self.target + 0.5), 2)])
