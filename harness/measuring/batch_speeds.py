"""Methods side by side at one batch size: what skipping is worth there, and the layers behind it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..backbone import Backbone
from ..decoding import decode
from ..method import Method
from .opponents import Prompts, alternate
from .rounds import value
from .samples import Trace


@dataclass(frozen=True)
class BatchSpeed:
    """Of one method at one batch size: decode speed-up over the first method with its interval, decoded tokens a second
    of all rows, and the mean number of layers that a row needed and that the batch ran in a decode step."""

    speedup: dict
    tokens_per_s: float
    needed: float
    ran: float


def batch_speeds(
    backbone: Backbone, methods: Mapping[str, Method], prompts: Prompts, new_tokens: int, rounds: int
) -> dict[str, BatchSpeed]:
    """Decode the prompts with each method in turn, all rows to the same length; the first one is the baseline."""
    traces: dict[str, Trace] = {}

    def call(key: str) -> float:
        out = decode(backbone, methods[key], *prompts, new_tokens, force_length=True)
        traces[key] = Trace.of(out, methods[key])
        return out.timing.decode_s

    spans = alternate({key: lambda key=key: call(key) for key in methods}, rounds)
    baseline = spans[next(iter(methods))]
    return {
        key: BatchSpeed(
            value([a / b for a, b in zip(baseline, seconds, strict=True)]),
            traces[key].rows * traces[key].steps / value(seconds)["value"],
            traces[key].needed,
            traces[key].layers,
        )
        for key, seconds in spans.items()
    }
