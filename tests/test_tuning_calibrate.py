"""The search for a threshold, on methods whose speed-up is known beforehand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch

from harness import EarlyExit
from harness.backbone.tiny import tiny_backbone, tiny_prompts
from harness.errors import SkipbenchError
from harness.tuning.calibrate import STEPS, calibrate

LAYERS, NEW_TOKENS = 8, 4


@dataclass(frozen=True)
class Whole(EarlyExit):
    """Leaves after `depth` layers, so that its speed-up is 8 / depth."""

    depth: int = 2
    name: ClassVar[str] = "whole"
    search: ClassVar = ("depth", 1, LAYERS)

    def should_exit(self, layer, state):
        return torch.full((len(state.hidden),), layer + 1 >= self.depth)


@dataclass(frozen=True)
class Smooth(Whole):
    depth: float = 2.0
    search: ClassVar = ("depth", 1.0, float(LAYERS))


@pytest.fixture(scope="module")
def backbone():
    return tiny_backbone("llama")


@pytest.fixture(scope="module")
def batches():
    return [tiny_prompts([3, 5]), tiny_prompts([4], seed=1)]


@pytest.mark.parametrize("depth", range(1, LAYERS + 1))
@pytest.mark.parametrize("method", [Whole, Smooth])
def test_every_depth_is_found_ends_included(backbone, batches, method, depth):
    found = calibrate(backbone, method(LAYERS), batches, LAYERS / depth, NEW_TOKENS)
    assert found.speedup == pytest.approx(LAYERS / depth)
    assert type(found.method.depth) is (int if method is Whole else float)
    assert (found.method.depth if method is Whole else -(-found.method.depth // 1)) == depth


def test_whole_numbers_are_tried_once_each(backbone, batches):
    found = calibrate(backbone, Whole(LAYERS), batches, LAYERS / 4.5, NEW_TOKENS)  # between two of them
    values = [value for value, _ in found.tried]
    assert len(set(values)) == len(values) < STEPS and all(type(value) is int for value in values)
    assert found.method.depth in (4, 5)


def test_an_end_is_tried_after_the_bisection_and_only_then(backbone, batches):
    reached = calibrate(backbone, Smooth(LAYERS), batches, 2.0, NEW_TOKENS)
    assert not {1.0, 8.0} & dict(reached.tried).keys()
    beyond = calibrate(backbone, Smooth(LAYERS), batches, 8.0, NEW_TOKENS)
    assert beyond.tried[-1] == (1.0, 8.0) and len(beyond.tried) == STEPS + 1 and beyond.method.depth == 1.0


def test_without_a_second_token_there_is_nothing_to_search(backbone, batches):
    with pytest.raises(SkipbenchError, match="whole: no output of the validation examples has a second token"):
        calibrate(backbone, Whole(LAYERS), batches, 2.0, max_new_tokens=1)
