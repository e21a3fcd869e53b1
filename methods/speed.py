"""SPEED: speculative pipelined execution of a looped decoder (arXiv 2310.12072)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from harness import Speculative, register_method


@register_method("speed")
@dataclass(frozen=True)
class Speed(Speculative):
    """After the first cycle the shared norm and head guess the next token, which follows its parent into the pipeline.

    All tokens in flight, of all rows and cycles, pass through the shared layers as rows of one batch, so they share one
    read of the weights. When a token leaves the last cycle its true successor is known; a wrong guess is dropped with
    its descendants. Trained on a loss at the end of each cycle c with weight c / (1 + ... + R), which is our choice.
    """

    pipelined: ClassVar[bool] = True
