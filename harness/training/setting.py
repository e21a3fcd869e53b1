"""What a checkpoint is made of, and what it is once it is there."""

from __future__ import annotations

from dataclasses import dataclass

from ..backbone.builtin import BUILTIN, POSITIONS
from ..task import Task
from .recipe import Recipe


@dataclass(frozen=True)
class Setting:
    """What a base model is made of. `model` is a built-in name, or a hub name or folder that brings its own weights."""

    model: str
    task: Task
    seed: int
    base: Recipe | None  # None for a model that brings its own weights
    own: Recipe
    vocab_size: int
    max_prompt_tokens: int
    max_output_tokens: int
    max_positions: int = POSITIONS
    split: str = "train"  # where the training examples are

    @property
    def builtin(self) -> bool:
        """Whether the model is made and trained here."""
        return self.model in BUILTIN

    @property
    def horizon(self) -> int:
        """Decode steps of the longest training output."""
        return self.max_output_tokens - 1


@dataclass(frozen=True)
class Checkpoint:
    """Weights in a folder; `weights` is their SHA-256, `training` what `training.json` says."""

    path: str
    key: str
    weights: str
    training: dict
