"""The threshold of an early-exit method for a target layer-count speed-up, searched on validation examples."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from ..backbone import Backbone
from ..decoding import decode
from ..errors import SkipbenchError, UsageError
from ..method import EarlyExit
from ..method.forms import searched
from ..method.parameters import check_parameters, construct

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

    `batches` are (input_ids, attention_mask) [batch, tokens] of validation prompts. An int parameter is tried at whole
    numbers, and an end of the range if everything between leads there. What came nearest is kept, whether or not the
    target can be met. Raises UsageError for a method that names no `search` parameter, SkipbenchError if no output has
    a second token.
    """
    if method.search is None:
        raise UsageError(f"method {method.name!r} names no parameter to search for a target speed-up")
    _, low, high = method.search
    tried: dict[float, float] = {}

    def distance(value: float) -> float:
        return abs(tried[value] / target - 1)

    def met(value: float) -> bool:
        tried[value] = layer_speedup(backbone, with_value(method, value), batches, max_new_tokens)
        return distance(value) <= CLOSE_ENOUGH

    for _ in range(STEPS):
        value = searched(type(method), (low + high) / 2)
        if value in tried or met(value):
            break
        if tried[value] > target:  # too fast: exit later
            low = value
        else:
            high = value
    if min(map(distance, tried)) > CLOSE_ENOUGH:
        for end in {low, high} - tried.keys():
            met(end)
    best = min(tried, key=distance)
    return Calibration(with_value(method, best), tried[best], tuple(tried.items()))


def with_value(method: EarlyExit, value: float) -> EarlyExit:
    """The method with another value of its `search` parameter, checked as one from a file would be."""
    return construct(dataclasses.replace, check_parameters(type(method), {method.search[0]: value}), method)


def layer_speedup(backbone: Backbone, method: EarlyExit, batches, max_new_tokens: int) -> float:
    """Layers of the full model over layers needed, as a ratio of sums over all decode steps."""
    needed = steps = 0
    for input_ids, attention_mask in batches:
        out = decode(backbone, method, input_ids, attention_mask, max_new_tokens)
        needed += int(out.layers_needed.sum())
        steps += int((out.lengths - 1).sum())
    if not steps:
        raise SkipbenchError(
            f"{method.name}: no output of the validation examples has a second token, so no speed-up can be searched; "
            f"train the model further, or give {method.search[0]} instead of a target"
        )
    return steps * backbone.num_layers / needed
