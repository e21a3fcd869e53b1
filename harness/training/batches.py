"""Training pairs in batches laid out round the prompt's end.

Prompts are left-padded and outputs right-padded, so decode step t stands in one column for all rows. A plan is then a
number of leading columns for each layer, and columns in which a layer is inactive are sliced away instead of paid for.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

import torch
from torch import Tensor

from ..errors import UsageError
from ..method import Lengths
from ..task import Task, encode_outputs, encode_prompt

POOL = 50  # batches whose examples are sorted by length together


class Pair(NamedTuple):
    """Token ids of one prompt and one output (EOS included)."""

    prompt: list[int]
    output: list[int]


@dataclass(frozen=True)
class Batch:
    """Aligned training pairs.

    Attributes:
        input_ids, attention_mask: [batch, columns]; the prompts' last tokens stand in column `prompt_columns` - 1.
        predicting: flat indices into [batch * columns] of the places that predict an output token.
        targets: the output token each of them predicts.
        steps: the decode step of each (0 for the first output token, which the prompt's last position predicts).
    """

    input_ids: Tensor
    attention_mask: Tensor
    prompt_columns: int
    predicting: Tensor
    targets: Tensor
    steps: Tensor

    @property
    def columns(self) -> int:
        return self.input_ids.shape[1]

    @property
    def decode_steps(self) -> int:
        """Decode steps of the longest row."""
        return self.columns - self.prompt_columns

    def to(self, device: torch.device) -> Batch:
        """The same batch on a device."""
        tensors = {name: value.to(device) for name, value in vars(self).items() if isinstance(value, Tensor)}
        return Batch(**{**vars(self), **tensors})


def encode_pairs(task: Task, split: str, tokenizer, max_prompt: int, max_output: int) -> list[Pair]:
    """Every (prompt, reference) pair of a split; outputs longer than `max_output` tokens are cut."""
    prompts, references = [], []
    for example in task.load(split):
        prompt = encode_prompt(task, example, tokenizer, max_prompt).ids
        prompts.extend([prompt] * len(example.references))
        references.extend(example.references)
    if not references:
        raise UsageError(f"task {task.label!r}: the {split} split has no example to train on")
    outputs = encode_outputs(references, tokenizer)
    return [Pair(prompt, output[:max_output]) for prompt, output in zip(prompts, outputs, strict=True)]


def lengths_of(pairs: Sequence[Pair]) -> Lengths:
    """Median prompt and output length, and all output lengths, in tokens."""
    outputs = tuple(sorted(len(pair.output) for pair in pairs))
    return Lengths(int(median(len(pair.prompt) for pair in pairs)), int(median(outputs)), outputs)


def batch_plan(pairs: Sequence[Pair], batch_size: int, steps: int, seed: int) -> list[list[int]]:
    """Which pairs stand in the batch of each step: shuffled by the seed, examples of like length together."""
    rng = random.Random(seed)
    batch_size = min(batch_size, len(pairs))
    plan: list[list[int]] = []
    while len(plan) < steps:
        order = rng.sample(range(len(pairs)), len(pairs))
        for start in range(0, len(order), POOL * batch_size):
            pool = sorted(order[start : start + POOL * batch_size], key=lambda i: _length(pairs[i]))
            batches = [pool[i : i + batch_size] for i in range(0, len(pool) - batch_size + 1, batch_size)]
            plan.extend(rng.sample(batches, len(batches)))
    return plan[:steps]


def collate(pairs: Sequence[Pair], pad_id: int) -> Batch:
    """Pairs laid out round the prompt's end."""
    prompt_columns = max(len(pair.prompt) for pair in pairs)
    columns = prompt_columns + max(len(pair.output) for pair in pairs) - 1
    ids = torch.full((len(pairs), columns), pad_id, dtype=torch.long)
    mask = torch.zeros_like(ids)
    predicting, targets, steps = [], [], []
    for row, (prompt, output) in enumerate(pairs):
        start = prompt_columns - len(prompt)
        fed = prompt + output[:-1]  # the last token is only predicted
        ids[row, start : start + len(fed)] = torch.tensor(fed)
        mask[row, start : start + len(fed)] = 1
        first = row * columns + prompt_columns - 1
        predicting.extend(range(first, first + len(output)))
        targets.extend(output)
        steps.extend(range(len(output)))
    places = (torch.tensor(values) for values in (predicting, targets, steps))
    return Batch(ids, mask, prompt_columns, *places)


def _length(pair: Pair) -> tuple[int, int]:
    return len(pair.prompt) + len(pair.output), len(pair.output)
