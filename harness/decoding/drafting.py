"""Draft and verify with a model's own layers (LayerSkip, arXiv 2404.16710; Draft & Verify, arXiv 2309.08168).

A round: the draft layers guess a few tokens, one a pass; then one pass of all layers over the tokens fed finds the true
ones. What was fed after the first wrong guess is rolled back, row by row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ..method import check_layers
from .guessing import Guess, Speculator
from .sampling import likeliest


@dataclass
class Round:
    """What a row feeds in a round, its last true token first, and the guesses made from it; at most `most` are fed."""

    most: int
    fed: list[int]
    guesses: list[int] = field(default_factory=list)


class Drafting(Speculator):
    """Draft layers that come first are not run again: the verification goes on from their states."""

    def __init__(self, backbone, method, lengths, limits) -> None:
        super().__init__(backbone, method, lengths, limits)
        self.draft = check_layers(method, method.draft_layers(), "draft_layers()")
        self.goes_on = self.draft == tuple(range(len(self.draft)))
        self._drafting = False
        self._states: list[Tensor] = []  # after the draft layers, [rows, 1, width] a pass
        self._known: Tensor | None = None  # the same as the verification sees them, [rows, columns, width]

    def advance(self) -> None:
        """One round."""
        before = list(self.cache.lengths)
        rounds = self._draft()
        self.cache.rollback(before)
        true, logits = self._verify([r.fed for r in rounds])
        kept = [self._accept(row, r, tokens) for row, r, tokens in zip(self.rows, rounds, true, strict=True)]
        for values, r, count in zip(logits, rounds, kept, strict=True):
            self.picked.add(values[len(values) - len(r.fed) :][:count])
        self.cache.rollback([length + count for length, count in zip(before, kept, strict=True)])
        self.drop([row.is_done(self.limits) for row in self.rows])

    def _draft(self) -> list[Round]:
        """Guess until no row may be fed more. Where the verification starts anew it feeds one token more than it."""
        most = self.method.draft_tokens + (not self.goes_on)
        left = [self.limits.max_new_tokens - len(row.tokens) for row in self.rows]
        rounds = [Round(min(most, n), [row.tokens[-1]]) for n, row in zip(left, self.rows, strict=True)]
        self._states = []
        while asked := [b for b, r in enumerate(rounds) if self._drafts(r)]:
            place = len(rounds[asked[0]].guesses)
            ids = [[r.fed[place] if b in asked else self.backbone.fill_id] for b, r in enumerate(rounds)]
            self._drafting = True
            hidden = self.run_pass(ids, [int(b in asked) for b in range(len(rounds))])
            logits = self.backbone.head(hidden[asked, -1])
            guesses = self.guess(logits, [Guess(b, len(self.rows[b].tokens) + place) for b in asked])
            for b, token in zip(asked, guesses, strict=True):
                self._take(rounds[b], token)
        return rounds

    def _drafts(self, r: Round) -> bool:
        """Whether the row's newest token goes through the draft layers; the last one need not where all run again."""
        return len(r.guesses) < len(r.fed) and (self.goes_on or len(r.fed) < r.most)

    def _take(self, r: Round, token: int) -> None:
        """Keep a guess, and feed it if there is room; EOS is not fed."""
        r.guesses.append(token)
        if len(r.fed) < r.most and token not in self.limits.eos:
            r.fed.append(token)

    def _verify(self, fed: Sequence[Sequence[int]]) -> tuple[list[list[int]], Tensor]:
        """One pass over what every row fed: the true token after each, and their logits [rows, columns], at the end."""
        columns = max(map(len, fed))
        ids = [[self.backbone.fill_id] * (columns - len(tokens)) + list(tokens) for tokens in fed]
        self._drafting = False
        self._known = self._right_aligned([len(tokens) for tokens in fed]) if self.goes_on else None
        hidden = self.run_pass(ids, [len(tokens) for tokens in fed], self.draft if self.goes_on else ())
        logits = self.backbone.head(hidden)
        true = likeliest(logits).unsqueeze(-1)
        logits, true = logits.gather(-1, true).squeeze(-1), true.squeeze(-1).tolist()
        return [tokens[columns - len(own) :] for own, tokens in zip(fed, true, strict=True)], logits

    def _right_aligned(self, counts: Sequence[int]) -> Tensor:
        """The drafted states [rows, columns, width], a row's last one in the last column."""
        states = torch.cat(self._states, dim=1)
        columns = states.shape[1]
        shift = torch.tensor([columns - count for count in counts], device=states.device)
        source = (torch.arange(columns, device=states.device) - shift[:, None]).clamp_(min=0)
        return states.gather(1, source.unsqueeze(-1).expand(-1, -1, states.shape[-1]))

    def _accept(self, row, r: Round, true: Sequence[int]) -> int:
        """Take true tokens until a guess was wrong, or the row ends; how many tokens fed were true."""
        for count, token in enumerate(true, start=1):
            row.tokens.append(token)
            guessed = count <= len(r.guesses)
            right = guessed and row.judge(r.guesses[count - 1], token)
            if not right or row.is_done(self.limits):
                return count
        return len(true)

    def decide(self, index: int, hidden: Tensor, call) -> Tensor:
        if self._drafting:
            hidden = self.run(index, hidden, call) if index in self.draft else hidden
            if index == self.draft[-1] and self.goes_on:
                self._states.append(hidden)
            return hidden
        if self.goes_on and index in self.draft:
            return self._known
        return self.run(index, hidden, call)
