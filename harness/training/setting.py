"""What a checkpoint is made of, and what it is once it is there."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from ..backbone.builtin import BUILTIN, CYCLES, POSITIONS
from ..task import Task, output_text
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

    def trained_for(self, objective: dict) -> dict:
        """The objective as this model is trained for it.

        A looped decoder that runs every layer is trained at the ends of its cycles, so that its sequential and its
        pipelined decoding share one checkpoint.
        """
        if self.model not in CYCLES or objective.get("objective") != "plan":
            return objective
        layers = list(range(BUILTIN[self.model][1]))
        everywhere = all(list(step) == layers for step in [objective["prompt"], *objective["steps"]])
        return {"objective": "cycles"} if everywhere else objective

    @property
    def horizon(self) -> int:
        """Decode steps of the longest training output."""
        return self.max_output_tokens - 1


def training_texts(task: Task, split: str) -> Iterator[str]:
    """Every prompt of a split, followed by its references, as a model reads and writes them."""
    for example in task.load(split):
        yield task.prompt(example)
        yield from map(output_text, example.references)


@lru_cache(maxsize=8)
def text_hash(task: Task, split: str) -> str:
    """SHA-256 of the texts of a split: a prompt is code of the task, which a hash of its data does not see."""
    digest = hashlib.sha256()
    for text in training_texts(task, split):
        digest.update(hashlib.sha256(text.encode()).digest())
    return digest.hexdigest()


@dataclass(frozen=True)
class Checkpoint:
    """Weights in a folder; `weights` is their SHA-256, `training` what `training.json` says."""

    path: str
    key: str
    weights: str
    training: dict
