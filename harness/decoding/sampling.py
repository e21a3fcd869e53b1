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

from ..errors import SkipbenchError, UsageError


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
        """Token ids [rows] from logits [rows, vocabulary]; `draws` [rows] are this step's uniform numbers.

        A logit that is no number is picked, so that `PickedLogits` sees it.
        """
        best = likeliest(logits)
        if draws is None:
            return best
        probabilities = (logits.double() / self.temperature).softmax(-1)
        ranked, tokens = probabilities.sort(dim=-1, descending=True, stable=True)
        cumulative = ranked.cumsum(-1)
        kept = cumulative - ranked < self.top_p  # the token that crosses top_p stays
        mass = (ranked * kept).cumsum(-1)
        threshold = draws.to(mass.device).unsqueeze(-1) * mass[:, -1:]
        place = torch.searchsorted(mass, threshold, right=True).clamp_(max=mass.shape[-1] - 1)
        last_kept = (kept.sum(-1, keepdim=True) - 1).clamp_(min=0)
        drawn = tokens.gather(-1, torch.minimum(place, last_kept)).squeeze(-1)
        return torch.where(mass[:, -1].isnan(), best, drawn)  # also where so low a temperature overflows


def likeliest(logits: Tensor) -> Tensor:
    """`logits.argmax(-1)`: ids of the largest logits [..., vocabulary]; the first of equal ones, NaN before all."""
    if logits.device.type == "cpu" and logits.dtype in (torch.float32, torch.float64):
        return torch.from_numpy(logits.numpy().argmax(-1))  # vectorised, which torch's is not
    return logits.argmax(-1)


class PickedLogits:
    """The logits behind the tokens picked, kept on the device: one look at the end costs no host sync a step."""

    def __init__(self) -> None:
        self._values: list[Tensor] = []

    def note(self, logits: Tensor, tokens: Tensor) -> Tensor:
        """Keep what was picked from logits [rows, vocabulary]; returns the tokens [rows]."""
        self.add(logits.gather(-1, tokens.unsqueeze(-1)))
        return tokens

    def add(self, values: Tensor) -> None:
        """Keep logits [...] that were picked."""
        self._values.append(values)

    def check(self, backbone) -> None:
        """Raise SkipbenchError if any is no number."""
        require_numbers(backbone, torch.cat([values.flatten() for values in self._values]))


def require_numbers(backbone, best: Tensor) -> None:
    """Raise SkipbenchError if any of these best logits [...] is NaN or infinite."""
    if not bool(best.isfinite().all()):
        half = backbone.dtype == torch.float16
        raise SkipbenchError(
            f"model {backbone.name!r}: logits are no numbers (NaN or infinite), so its tokens mean nothing; "
            + ("float16 overflows: use bfloat16 or float32" if half else "check its weights")
        )
