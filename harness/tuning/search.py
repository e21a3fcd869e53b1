"""Choosing among candidate schedules: ranked by teacher-forced loss, decided by what the best of them decode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..backbone import Backbone
from ..method import LayerSchedule
from ..training.batches import Pair
from .teacher import teacher_forced

CLOSE_ENOUGH = 0.05  # relative distance from the target within which quality decides


@dataclass(frozen=True)
class Ranked:
    """A candidate and its teacher-forced loss under its own plan, in nats a token."""

    method: LayerSchedule
    loss: float


@dataclass(frozen=True)
class Finalist:
    """A fine-tuned candidate: main metric and layer-count speed-up of what it decoded."""

    method: LayerSchedule
    loss: float
    score: float
    speedup: float


def rank(
    backbone: Backbone, candidates: Sequence[LayerSchedule], pairs: Sequence[Pair], max_new_tokens: int
) -> list[Ranked]:
    """The candidates by their loss on `pairs`, best first."""
    losses = [teacher_forced(backbone, method, pairs, max_new_tokens).loss for method in candidates]
    return sorted((Ranked(*pair) for pair in zip(candidates, losses, strict=True)), key=lambda ranked: ranked.loss)


def winner(finalists: Sequence[Finalist], target: float) -> Finalist:
    """The best score among those within 5 % of the target speed-up; if there are none, the nearest to it."""
    near = [f for f in finalists if abs(f.speedup / target - 1) <= CLOSE_ENOUGH]
    if near:
        return max(near, key=lambda finalist: finalist.score)
    return min(finalists, key=lambda finalist: abs(finalist.speedup / target - 1))
