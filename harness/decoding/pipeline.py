"""Pipelined decoding of a looped decoder: SPEED (arXiv 2310.12072).

A pass of the body is one cycle step: the shared layers run once, over a batch that holds, cycle by cycle, the token
each row has there, if any. Cache row c·B + b is row b in cycle c, so each has its own length and its own rollback.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..backbone.looped import by_cycles
from .guessing import Guess, Row, Speculator
from .sampling import likeliest


@dataclass
class Flight:
    """An output token on its way through the cycles, and the guess of its successor once the first one is done."""

    token: int
    place: int
    guess: int | None = None


class Pipeline(Speculator):
    """`stages[row][cycle]` is the token a row has in a cycle; a parent is always one cycle ahead of its child."""

    def begin(self, rows: Sequence[Row]) -> None:
        self.cycles = self.backbone.num_cycles
        self.unique = self.backbone.num_layers // self.cycles
        self.cache = by_cycles(self.cache, self.cycles)
        self.stages = [self._only(Flight(row.tokens[0], 0)) for row in rows]
        self._carried: Tensor | None = None  # states after a cycle, in the order of the rows that take them on
        super().begin(rows)

    def _only(self, flight: Flight) -> list[Flight | None]:
        return [flight] + [None] * (self.cycles - 1)

    def advance(self) -> None:
        """One cycle step."""
        logits = self._cycle_step()
        asked = [Guess(b, s[0].place + 1) for b, s in enumerate(self.stages) if self._may_have_child(s[0])]
        leaving = [b for b, s in enumerate(self.stages) if s[-1] is not None]
        guesses = self.guess(logits[[a.row for a in asked]], asked) if asked else []
        for ask, token in zip(asked, guesses, strict=True):
            self.stages[ask.row][0].guess = token
        logits = logits[[b - len(self.rows) for b in leaving]]  # the last cycle's come last
        true = self.picked.note(logits, likeliest(logits)).tolist()
        self._settle(dict(zip(leaving, true, strict=True)))
        self.drop([row.is_done(self.limits) for row in self.rows])

    def _may_have_child(self, flight: Flight | None) -> bool:
        """Whether the token after this one will be fed if it is not EOS; with one cycle it is known, not guessed."""
        return flight is not None and self.cycles > 1 and flight.place + 2 < self.limits.max_new_tokens

    def _cycle_step(self) -> Tensor:
        """Run the step; logits of the rows in the first cycle, then, if any row is there, of those in the last."""
        reach = max(c for s in self.stages for c in range(self.cycles) if s[c] is not None) + 1
        slots = [s[c] for c in range(self.cycles) for s in self.stages]
        ids = [[self.backbone.fill_id if f is None else f.token] for f in slots[: reach * len(self.rows)]]
        hidden = self.run_pass(ids, [int(f is not None) for f in slots])[:, -1]
        if 1 < reach == self.cycles:
            hidden = torch.cat((hidden[: len(self.rows)], hidden[-len(self.rows) :]))
        elif reach > 1:
            hidden = hidden[: len(self.rows)]
        return self.backbone.head(hidden)

    def _settle(self, true: dict[int, int]) -> None:
        """Move every row's tokens one cycle on; where the last one left, its true successor stays or enters."""
        lengths = list(self.cache.lengths)
        for b, (row, stages) in enumerate(zip(self.rows, self.stages, strict=True)):
            entering = self._child(stages[0])
            if b in true:
                row.tokens.append(true[b])
                parent = stages[-1]
                if parent.guess is None or not row.judge(parent.guess, true[b]):
                    self.stages[b] = self._only(Flight(true[b], parent.place + 1))
                    self._forget(lengths, b, row.prompt + parent.place + 1)
                    continue
            self.stages[b] = [entering, *stages[:-1]]
        if lengths != self.cache.lengths:
            self.cache.rollback(lengths)

    def _child(self, flight: Flight | None) -> Flight | None:
        """The guess as a token to feed; EOS is not fed."""
        if flight is None or flight.guess is None or flight.guess in self.limits.eos:
            return None
        return Flight(flight.guess, flight.place + 1)

    def _forget(self, lengths: list[int], row: int, length: int) -> None:
        for place in range(row, len(lengths), len(self.rows)):
            lengths[place] = min(lengths[place], length)

    def select(self, kept: list[int]) -> None:
        size = len(self.stages)
        self.cache.select([cycle * size + row for cycle in range(self.cycles) for row in kept])
        self.stages = [self.stages[row] for row in kept]
        if self._carried is not None and len(self._carried):
            self._carried = self._carried.unflatten(0, (-1, size))[:, kept].flatten(0, 1)

    def decide(self, index: int, hidden: Tensor, call) -> Tensor:
        """The layers of the first cycle run for all; what has passed a cycle before takes its states with it."""
        if index >= self.unique:
            return hidden
        rows = len(self.rows)
        if index == 0 and len(hidden) > rows:
            hidden = torch.cat((hidden[:rows], self._carried[: len(hidden) - rows]))
        out = self.run(index, hidden, call)
        if index == self.unique - 1:
            self._carried = out[: rows * (self.cycles - 1)]
        return out
