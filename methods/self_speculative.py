"""Self-speculation, a lossless control: some of the model's own layers draft, all of them verify."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from harness import Speculative, register_method
from harness.errors import UsageError


@register_method("self_speculative")
@dataclass(frozen=True)
class SelfSpeculative(Speculative):
    """`draft_depth` layers, then norm and head, draft up to `draft_tokens` tokens; a pass of all layers verifies them.

    `draft="prefix"`: the first layers, whose keys and values the verification reuses (LayerSkip, arXiv 2404.16710).
    `draft="subset"`: layers spread evenly from the first to the last, whose keys and values the verification rewrites
    (arXiv 2309.08168; which layers is our choice). `draft_depth` is a quarter of the layers unless it is given.
    """

    draft: Literal["prefix", "subset"] = "prefix"
    draft_depth: int | None = None
    draft_tokens: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.draft_depth is None:
            object.__setattr__(self, "draft_depth", max(1, self.num_layers // 4))
        if not 1 <= self.draft_depth <= self.num_layers:
            raise UsageError(f"self_speculative: draft_depth must lie in 1..{self.num_layers}, not {self.draft_depth}")
        if self.draft_tokens < 1:
            raise UsageError(f"self_speculative: draft_tokens must be at least 1, not {self.draft_tokens}")

    def draft_layers(self) -> list[int]:
        if self.draft == "prefix":
            return list(range(self.draft_depth))
        steps = max(self.draft_depth - 1, 1)
        return [(2 * i * (self.num_layers - 1) + steps) // (2 * steps) for i in range(self.draft_depth)]
