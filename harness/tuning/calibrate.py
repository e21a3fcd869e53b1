"""The threshold of an early-exit method for a target layer-count speed-up, searched on validation examples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch import Tensor

from ..backbone import Backbone
from ..decoding import decode
from ..errors import UsageError
from ..method import EarlyExit

STEPS = 14  # bisections: the interval shrinks 16,000-fold
CLOSE_ENOUGH = 0.01  # relative distance from the target at which the search stops


@dataclass(frozen=True)
class Calibration:
    """A calibrated method, the speed-up it reached on the validation examples, and every (value, speed-up) tried."""

    method: EarlyExit
    speedup: float
    tried: tuple[tuple[float, float], ...]


def calibrate(
    backbone: Backbone,
    method: EarlyExit,
    batches: Sequence[tuple[Tensor, Tensor]],
    target: float,
    max_new_tokens: int,
) -> Calibration:
    """Bisect the method's `search` parameter until the mean layer-count speed-up meets `target`.

    `batches` are (input_ids, attention_mask) [batch, tokens] of validation prompts. What came nearest is kept, whether
    or not the target can be met. Raises UsageError for a method that names no `search` parameter.
    """
    if method.search is None:
        raise UsageError(f"method {method.name!r} names no parameter to search for a target speed-up")
    name, low, high = method.search
    tried: list[tuple[float, float]] = []
    for _ in range(STEPS):
        value = (low + high) / 2
        speed = layer_speedup(backbone, replace(method, **{name: value}), batches, max_new_tokens)
        tried.append((value, speed))
        if abs(speed / target - 1) <= CLOSE_ENOUGH:
            break
        if speed > target:  # too fast: exit later
            low = value
        else:
            high = value
    value, speed = min(tried, key=lambda pair: abs(pair[1] / target - 1))
    return Calibration(replace(method, **{name: value}), speed, tuple(tried))


def layer_speedup(backbone: Backbone, method: EarlyExit, batches, max_new_tokens: int) -> float:
    """Layers of the full model over layers needed, as a ratio of sums over all decode steps; 1 if there are none."""
    needed = steps = 0
    for input_ids, attention_mask in batches:
        out = decode(backbone, method, input_ids, attention_mask, max_new_tokens)
        needed += int(out.layers_needed.sum())
        steps += int((out.lengths - 1).sum())
    return steps * backbone.num_layers / needed if needed else 1.0
