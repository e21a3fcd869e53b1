"""The next token of each row: greedy, or drawn with temperature and top-p.

A row's draws come from its own seed, so they depend neither on its batch mates nor on when those end.
"""

from __future__ import annotations

import numbers
import operator
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ..errors import UsageError


@dataclass(frozen=True)
class Sampling:
    """Decoding options. `temperature` 0 is greedy; `top_p` keeps the smallest set of tokens with that probability."""

    temperature: float = 0.0
    top_p: float = 1.0
    seed: int | Sequence[int] = 0  # one, or one a row

    def __post_init__(self) -> None:
        if not (isinstance(self.temperature, numbers.Real) and 0 <= self.temperature < float("inf")):
            raise UsageError(f"temperature must be 0 (greedy) or positive, not {self.temperature!r}")
        if not (isinstance(self.top_p, numbers.Real) and 0 < self.top_p <= 1):
            raise UsageError(f"top_p must lie in (0, 1], not {self.top_p!r}")

    @property
    def label(self) -> str:
        """As it stands in result tables."""
        return "greedy" if self.temperature == 0 else f"temperature={self.temperature:g} top_p={self.top_p:g}"

    def draws(self, rows: int, steps: int) -> Tensor | None:
        """Uniform numbers [rows, steps] in float64, or None for greedy decoding."""
        if self.temperature == 0:
            return None
        generators = [torch.Generator().manual_seed(seed) for seed in self._seeds(rows)]
        return torch.stack([torch.rand(steps, generator=g, dtype=torch.float64) for g in generators])

    def _seeds(self, rows: int) -> list[int]:
        one = isinstance(self.seed, numbers.Integral)
        try:
            seeds = [operator.index(s) for s in ([self.seed + row for row in range(rows)] if one else self.seed)]
        except TypeError:
            raise UsageError(f"a seed is a whole number, or one a row, not {self.seed!r}") from None
        if len(seeds) != rows:
            raise UsageError(f"{len(seeds)} seeds for {rows} rows; give one seed, or one a row")
        if any(not 0 <= seed < 2**63 for seed in seeds):
            raise UsageError(f"seeds lie between 0 and 2^63 - 1, not {self.seed!r}")
        return seeds

    def pick(self, logits: Tensor, draws: Tensor | None) -> Tensor:
        """Token ids [rows] from logits [rows, vocabulary]; `draws` [rows] are this step's uniform numbers."""
        if draws is None:
            return logits.argmax(-1)
        probabilities = (logits.double() / self.temperature).softmax(-1)
        ranked, tokens = probabilities.sort(dim=-1, descending=True, stable=True)
        cumulative = ranked.cumsum(-1)
        kept = cumulative - ranked < self.top_p  # the token that crosses top_p stays
        mass = (ranked * kept).cumsum(-1)
        threshold = draws.to(mass.device).unsqueeze(-1) * mass[:, -1:]
        place = torch.searchsorted(mass, threshold, right=True).clamp_(max=mass.shape[-1] - 1)
        last_kept = kept.sum(-1, keepdim=True) - 1
        return tokens.gather(-1, torch.minimum(place, last_kept)).squeeze(-1)
