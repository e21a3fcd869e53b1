"""Guessers of known skill, and the inside of a speculative run step by step."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch

from harness import Speculative, decode, load_method
from harness.backbone import gates
from harness.decoding.guessing import Limits, Row, Speculator
from harness.decoding.loop import make_stepper
from harness.decoding.passes import prefill
from harness.decoding.prompts import left_padded
from harness.decoding.speculation import make_speculator


@dataclass(frozen=True)
class Guesser(Speculative):
    """Knows the output tokens `truth` [batch, tokens], and says them with probability `skill`, else another id."""

    truth: torch.Tensor | None = None
    skill: float = 1.0
    pipelined: bool = True
    draft_tokens: int = 3
    generator: torch.Generator = field(default_factory=lambda: torch.Generator().manual_seed(0))

    def draft_layers(self):
        return [0, 1]

    def guess(self, logits, rows, places):
        right = torch.rand(len(rows), generator=self.generator) < self.skill
        return torch.where(right, self.truth[rows, places], (self.truth[rows, places] + 1) % logits.shape[1])


def guesser(backbone, prompts, new_tokens: int, skill: float, pipelined: bool = True) -> Guesser:
    """A guesser that knows the sequential output of these prompts (ids and mask)."""
    full = decode(backbone, load_method("full", backbone.num_layers), *prompts, new_tokens, force_length=True)
    return Guesser(backbone.num_layers, truth=full.tokens, skill=skill, pipelined=pipelined)


@contextmanager
def begun(backbone, method: Speculative, prompts, new_tokens: int) -> Iterator[Speculator]:
    """A speculative run after its prefill, to be advanced by hand; no EOS ends a row."""
    batch = left_padded(backbone, *prompts)
    speculator = make_speculator(backbone, method, batch.lengths, Limits(new_tokens, frozenset()))
    with torch.inference_mode(), gates(backbone, speculator.visit):
        first = prefill(backbone, speculator, batch).argmax(-1).tolist()
        speculator.begin([Row(i, n, [token]) for i, (n, token) in enumerate(zip(batch.lengths, first, strict=True))])
        yield speculator


def keys_and_values(backbone, ids: list[int]) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Of each layer, [heads, tokens, head width] each, from one pass over a sequence at full depth."""
    stepper = make_stepper(backbone, load_method("full", backbone.num_layers), [len(ids)], 1)
    with torch.inference_mode(), gates(backbone, stepper.visit):
        prefill(backbone, stepper, left_padded(backbone, torch.tensor([ids]), None))
    return [(k[0], v[0]) for k, v in zip(stepper.cache.keys, stepper.cache.values, strict=True)]
