"""How much room early exit has at all: leave as soon as the answer stands, known in hindsight."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from harness import EarlyExit, register_method


@register_method("oracle_exit")
@dataclass(frozen=True)
class OracleExit(EarlyExit):
    """Exit at the first layer whose arg-max equals the last layer's. Untimed: every layer runs to know it."""

    kv_policy: ClassVar[str] = "oracle"

    def should_exit(self, layer: int, state):
        return state.logits().argmax(-1) == state.last_logits().argmax(-1)
