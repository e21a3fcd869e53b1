"""Training pairs in batches laid out round the prompt's end.

Prompts are left-padded and outputs right-padded, so decode step t stands in the same columns for all rows. A plan is
then a number of leading columns for each layer, and columns in which a layer is inactive are sliced away instead of
paid for. Several outputs of one prompt can share a row, and with it the prompt's cost: they stand step by step side by
side, and none sees another.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from statistics import median
from typing import NamedTuple

import torch
from torch import Tensor

from ..backbone.masked import Layout, causal, row_layout
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
        input_ids, attention_mask: [rows, columns]; the prompts' last tokens stand in column `prompt_columns` - 1. Then
            come the output tokens fed at step 1, one column a strand, those fed at step 2, and so on.
        strands: the most outputs that share a prompt in one row.
        predicting: flat indices into [rows * columns] of the places that predict an output token.
        targets: the output token each of them predicts.
        steps: the decode step of each (0 for the first output token, which the prompt's last position predicts).
    """

    input_ids: Tensor
    attention_mask: Tensor
    prompt_columns: int
    predicting: Tensor
    targets: Tensor
    steps: Tensor
    strands: int = 1

    @property
    def columns(self) -> int:
        return self.input_ids.shape[1]

    @property
    def decode_steps(self) -> int:
        """Decode steps of the longest output."""
        return (self.columns - self.prompt_columns) // self.strands

    def layout(self) -> Layout:
        """Which columns see which, and every token's position in its own sequence."""
        if self.strands == 1:
            return row_layout(self.attention_mask)
        place = torch.arange(self.columns, device=self.input_ids.device) - self.prompt_columns
        step, strand = place // self.strands + 1, place % self.strands
        same = (place < 0) | (strand == strand[:, None])  # [query, key]: the prompt, or the query's own output
        prompt = self.attention_mask[:, : self.prompt_columns].long()
        outputs = (prompt.sum(1, keepdim=True) - 1 + step).expand_as(self.input_ids)[:, self.prompt_columns :]
        positions = torch.cat(((prompt.cumsum(1) - 1).clamp_(min=0), outputs), 1)
        return Layout(causal(self.attention_mask) & same, positions)

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


def batch_plan(pairs: Sequence[Pair], batch_size: int, steps: int, seed: int, strands: int = 1) -> list[list[int]]:
    """Which pairs stand in the batch of each step: shuffled by the seed, examples of like length together.

    Up to `strands` neighbouring pairs of one prompt stay side by side. A batch holds at most `batch_size` pairs.
    """
    rng = random.Random(seed)
    batch_size = min(batch_size, len(pairs))
    bundles = _bundles(pairs, min(strands, batch_size))
    plan: list[list[int]] = []
    while len(plan) < steps:
        order = rng.sample(bundles, len(bundles))
        for pool in _filled(order, POOL * batch_size):
            pool.sort(key=lambda bundle: (len(bundle), max(_length(pairs[i]) for i in bundle)))
            batches = [[i for bundle in batch for i in bundle] for batch in _filled(pool, batch_size)]
            if len(batches) > 1 and len(batches[-1]) < batch_size // 2:
                batches.pop()  # a step on very few examples would be a noisy one
            plan.extend(rng.sample(batches, len(batches)))
    return plan[:steps]


def collate(pairs: Sequence[Pair], fill_id: int, strands: int = 1) -> Batch:
    """Pairs laid out round the prompt's end; up to `strands` neighbours of one prompt share a row."""
    rows = _bundles(pairs, strands)
    strands = max(map(len, rows))
    prompt_columns = max(len(pair.prompt) for pair in pairs)
    columns = prompt_columns + strands * (max(len(pair.output) for pair in pairs) - 1)
    ids = torch.full((len(rows), columns), fill_id, dtype=torch.long)
    mask = torch.zeros_like(ids)
    predicting, targets, steps = [], [], []
    for row, bundle in enumerate(rows):
        prompt = pairs[bundle[0]].prompt
        ids[row, prompt_columns - len(prompt) : prompt_columns] = torch.tensor(prompt)
        mask[row, prompt_columns - len(prompt) : prompt_columns] = 1
        last = row * columns + prompt_columns - 1  # the prompt's last token, flat
        for strand, output in enumerate(pairs[i].output for i in bundle):
            fed = slice(prompt_columns + strand, prompt_columns + strands * (len(output) - 1), strands)
            ids[row, fed] = torch.tensor(output[:-1], dtype=torch.long)  # the last token is only predicted
            mask[row, fed] = 1
            predicting += [last, *(last + 1 + strand + strands * t for t in range(len(output) - 1))]
            targets += output
            steps += range(len(output))
    places = (torch.tensor(values) for values in (predicting, targets, steps))
    return Batch(ids, mask, prompt_columns, *places, strands)


def _bundles(pairs: Sequence[Pair], strands: int) -> list[list[int]]:
    """Places of neighbouring pairs with one prompt, in runs of like size, none longer than `strands`."""
    bundles: list[list[int]] = []
    for _, places in groupby(range(len(pairs)), key=lambda i: pairs[i].prompt):
        places = sorted(places, key=lambda i: len(pairs[i].output)) if strands > 1 else list(places)
        count = -(-len(places) // strands)
        bundles += [places[len(places) * k // count : len(places) * (k + 1) // count] for k in range(count)]
    return bundles


def _filled(bundles: Sequence[list[int]], size: int) -> list[list[list[int]]]:
    """The bundles in their order, in groups of at most `size` pairs."""
    groups, count = [[]], 0
    for bundle in bundles:
        if count + len(bundle) > size and groups[-1]:
            groups.append([])
            count = 0
        groups[-1].append(bundle)
        count += len(bundle)
    return groups


def _length(pair: Pair) -> tuple[int, int]:
    return len(pair.prompt) + len(pair.output), len(pair.output)
