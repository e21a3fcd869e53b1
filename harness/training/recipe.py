"""What a training run is made of, as plain values: no torch here, so that keys cost nothing."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from dataclasses import dataclass

# Raised by hand when the same recipe may give other weights.
TRAINING_VERSION = 2


@dataclass(frozen=True)
class Recipe:
    """Optimisation of one training run: AdamW, linear warm-up, then linear decay to zero.

    `batch_size` counts examples; `learning_rate` is the peak; `warmup` a share of the steps.
    """

    steps: int
    batch_size: int = 32
    learning_rate: float = 3e-3
    warmup: float = 0.05
    weight_decay: float = 0.01
    clip_norm: float = 1.0

    def rate(self, step: int) -> float:
        """Learning rate of step `step`, counted from 0."""
        warm = max(1, round(self.warmup * self.steps))
        if step < warm:
            return self.learning_rate * (step + 1) / warm
        return self.learning_rate * max(self.steps - step, 1) / max(self.steps - warm + 1, 1)


def key_of(**parts: object) -> str:
    """A short SHA-256 key over everything that made an artefact."""
    text = json.dumps({"version": TRAINING_VERSION, **parts}, sort_keys=True, default=_plain)
    return hashlib.sha256(text.encode()).hexdigest()[:20]


def _plain(value: object) -> object:
    return dataclasses.asdict(value) if dataclasses.is_dataclass(value) else str(value)
