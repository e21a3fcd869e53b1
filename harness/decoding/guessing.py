"""What all speculative decoding shares: rows of different progress, passes that add tokens row by row, checked guesses.

Bookkeeping is done on the host: after each pass the tokens decide what the next one feeds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from ..backbone import Backbone, PlanCache
from ..errors import UsageError
from ..method import Speculative
from .passes import position_mask
from .sampling import PickedLogits
from .steppers import Stepper


class Limits(NamedTuple):
    """When a row ends: at `max_new_tokens`, or at one of the `eos` ids."""

    max_new_tokens: int
    eos: frozenset[int]


@dataclass
class Row:
    """One row of the batch: its place there, its prompt's length, the true output so far, and what guessing did.

    `guesses` counts those whose true token became known, `accepted` the right ones among them, `passes` the passes of
    the body the row took part in.
    """

    index: int
    prompt: int
    tokens: list[int]
    guesses: int = 0
    accepted: int = 0
    passes: int = 0

    def judge(self, guess: int, true: int) -> bool:
        """Count a guess; whether it was right."""
        self.guesses += 1
        self.accepted += guess == true
        return guess == true

    def is_done(self, limits: Limits) -> bool:
        """Whether the output is complete."""
        return self.tokens[-1] in limits.eos or len(self.tokens) == limits.max_new_tokens


class Guess(NamedTuple):
    """A guess asked for: the row of the running batch, and the place in that row's output."""

    row: int
    place: int


class Speculator(Stepper):
    """Base of both ways to speculate: `begin` after the prefill, then `advance` while there are `rows`."""

    method: Speculative

    def __init__(self, backbone: Backbone, method: Speculative, lengths: list[int], limits: Limits) -> None:
        capacity = max(lengths) + limits.max_new_tokens - 1
        super().__init__(backbone, method, PlanCache(lengths, [capacity] * backbone.num_layers, backbone.device))
        self.limits = limits
        self.rows: list[Row] = []  # that still decode
        self.layers_run: list[list[int]] = []  # a list a pass
        self.picked = PickedLogits()  # of true tokens; guesses may be anything

    def begin(self, rows: Sequence[Row]) -> None:
        """Take over from the prefill; rows whose first token was their last are left out."""
        self.rows = list(rows)
        self.drop([row.is_done(self.limits) for row in rows])

    def advance(self) -> None:
        """Some passes of the body; takes rows that are done out of `rows`."""
        raise NotImplementedError

    def drop(self, done: Sequence[bool]) -> None:
        """Take rows out of the batch."""
        if any(done):
            kept = [place for place, gone in enumerate(done) if not gone]
            self.rows = [self.rows[place] for place in kept]
            self.select(kept)

    def select(self, kept: list[int]) -> None:
        """Keep what belongs to these rows of the running batch."""
        self.cache.select(kept)

    def start(self, step: int) -> None:
        """Nothing to do: a pass is no decode step."""

    def run_pass(self, ids: Sequence[Sequence[int]], adding: Sequence[int], held: Sequence[int] = ()) -> Tensor:
        """Final hidden states [rows, columns, width] of a pass over ids [rows, columns].

        `adding` says how many of its last columns a row adds; the others are padding. `held` layers have written them
        before. There may be fewer rows than the cache has, if the last ones add nothing.
        """
        device, columns = self.backbone.device, len(ids[0])
        self.cache.begin_step(adding)
        self.cache.keep(held)
        ends = [length + new for length, new, _ in zip(self.cache.lengths, adding, ids, strict=False)]
        positions = torch.tensor(ends, device=device).unsqueeze(1) + torch.arange(-columns, 0, device=device)
        positions = positions.clamp_(min=0)
        self.begin_step(0, position_mask(positions, self.cache.end, self.backbone.dtype))
        hidden = self.run_step(torch.tensor(ids, device=device), positions)
        self.cache.commit()
        self.layers_run.append(list(self.ran))
        for row in self.rows:
            row.passes += 1
        return hidden

    def guess(self, logits: Tensor, asked: Sequence[Guess]) -> list[int]:
        """The method's guesses, checked, one for each asked; logits [asked, vocabulary]."""
        rows, places = torch.tensor([(self.rows[a.row].index, a.place) for a in asked], device=logits.device).unbind(1)
        ids = self.method.guess(logits, rows, places)
        if isinstance(ids, Tensor) and ids.dtype == torch.long and ids.shape == logits.shape[:1]:
            tokens = ids.tolist()
            if all(0 <= token < logits.shape[1] for token in tokens):
                return tokens
        raise UsageError(
            f"method {self.method.name!r}: guess must return token ids below {logits.shape[1]}, a long tensor of shape "
            f"{list(logits.shape[:1])}, not {ids!r}"
        )
