"""Building methods: from parameters, from a target, and every way it can go wrong."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import torch

from harness import EarlyExit, LayerSchedule, load_method
from harness.errors import UsageError
from harness.method import check_layers
from harness.method.parameters import build_method


@pytest.mark.parametrize(
    "name, parameters, message",
    [
        ("skip_decode", {}, "unknown method 'skip_decode'; did you mean skipdecode"),
        (None, {}, "unknown method None; choose from: calm, full"),
        (["full"], {}, "unknown method ['full']; did you mean full"),
        ("calm", {"treshold": 0.5}, "unknown parameter of calm 'treshold'; did you mean threshold?"),
        ("calm", {"threshold": "high"}, "calm: parameter threshold='high': input should be a valid number"),
        ("skipdecode", {"min_layers": 2.5, "max_layers": 3}, "parameter min_layers=2.5"),
        ("unified", {"target": 0.5}, "a target speed-up is a number from 1 to the number of layers"),
        ("unified", {"target": 1000}, "not 1000; 2 means half the layers"),
        ("unified", {"target": "fast"}, "not 'fast'"),
        ("unified", {"target": True}, "not True"),
        ("unified", {"target": float("nan")}, "not nan"),
        ("unified", {"target": np.array([2, 3])}, "not [2, 3]"),
        ("unified", {"target": torch.tensor([2, 3])}, "not [2, 3]"),
        ("unified", {"target": 2, "train_targets": np.array([[2.0, 3.0]])}, "unified: parameter train_targets="),
        ("calm", {"threshold": np.array([0.1, 0.2])}, "calm: parameter threshold="),
        (
            "skipdecode",
            {"target": 2, "lengths": (3, 4)},
            "lengths are Lengths(prompt=…, output=…), in tokens, not (3, 4)",
        ),
        ("unified", {}, "unified: give target or a target speed-up"),
        ("multi_layer", {}, "multi_layer: give exit_layers or a target speed-up"),
        ("multi_layer", {"exit_layers": 13}, "exit_layers must lie in 1..12"),
        ("multi_layer", {"exit_layers": 3, "target": 2}, "give a target speed-up or exit_layers, not both"),
    ],
)
def test_mistakes_are_one_clear_line(name, parameters, message):
    with pytest.raises(UsageError) as caught:
        load_method(name, num_layers=12, **parameters)
    assert message in str(caught.value) and len(str(caught.value).splitlines()) == 1
    assert caught.value.exit_code == 2


def test_numbers_come_in_many_types():
    plain = load_method("skipdecode", num_layers=12, min_layers=3, max_layers=9)
    odd = load_method("skipdecode", num_layers=np.int64(12), min_layers=np.int32(3), max_layers=torch.tensor(9))
    assert odd == plain and type(odd.max_layers) is int
    assert load_method("unified", num_layers=24, target=2) == load_method("unified", num_layers=24, target=2.0)
    assert load_method("calm", 12, threshold=1).threshold == 1.0
    for two in (np.float32(2), np.int64(2), torch.tensor(2.0)):
        assert load_method("unified", 24, target=two) == load_method("unified", 24, target=2)
        assert load_method("skipdecode", 24, target=two) == load_method("skipdecode", 24, target=2)


def test_arrays_are_lists():
    expected = load_method("unified", 24, target=2, train_targets=(2.0, 3.0))
    for pair in (np.array([2.0, 3.0]), torch.tensor([2.0, 3.0])):
        assert load_method("unified", 24, target=2, train_targets=pair) == expected


def test_a_for_target_that_returns_no_method_is_named():
    @dataclass(frozen=True)
    class Forgetful(LayerSchedule):
        @classmethod
        def for_target(cls, num_layers, target, lengths):
            cls(num_layers)

    with pytest.raises(UsageError, match="for_target must return a Forgetful, not None"):
        build_method(Forgetful, 4, target=2)


def test_parameters_without_the_decorator_are_named():
    class Bare(LayerSchedule):
        depth: int = 2

        def layers(self, step):
            return range(self.depth)

    with pytest.raises(UsageError, match=r"its parameters are no fields; put @dataclass\(frozen=True\) on the class"):
        build_method(Bare, 4)


def test_methods_are_frozen_and_say_who_they_are():
    method = load_method("unified", num_layers=24, target=2)
    with pytest.raises(dataclasses.FrozenInstanceError):
        method.target = 3
    assert method.name == "unified" and method.variant == "target=2 selection=official"
    assert hash(method) == hash(load_method("unified", num_layers=24, target=2))


def test_a_plugin_without_for_target_ignores_the_target():
    @dataclass(frozen=True)
    class Plain(LayerSchedule):
        depth: int = 2

        def layers(self, step):
            return range(self.depth)

    assert build_method(Plain, 8, target=4).plan(2) == [(0, 1)] * 2
    assert build_method(Plain, 8, target=4, depth=3).plan(1) == [(0, 1, 2)]
    assert list(build_method(Plain, 8).prompt_layers()) == list(range(8))


def test_a_for_target_without_parameters_still_takes_them():
    @dataclass(frozen=True)
    class Deep(LayerSchedule):
        depth: int
        flavour: str = "plain"

        @classmethod
        def for_target(cls, num_layers, target, lengths):
            return cls(num_layers, int(num_layers / target))

        def layers(self, step):
            return range(self.depth)

    method = build_method(Deep, 8, target=2, flavour="odd")
    assert (method.depth, method.flavour) == (4, "odd")
    with pytest.raises(UsageError, match="Deep: give depth or a target speed-up"):
        build_method(Deep, 8)


@dataclass(frozen=True)
class Any(LayerSchedule):
    """For check_layers."""


@pytest.mark.parametrize(
    "layers", [[0, 3, 1], (3, 1, 0), range(4), {2, 0}, np.array([1, 0]), torch.tensor([2]), (i for i in (1, 0))]
)
def test_layers_may_come_in_any_order_and_container(layers):
    found = check_layers(Any(4), layers, "layers(1)")
    assert list(found) == sorted(found) and all(type(i) is int for i in found)


@pytest.mark.parametrize(
    "layers, message",
    [
        (None, "must return layer indices, not None"),
        (3, "must return layer indices, not 3"),
        ([0.0, 1.0], "must return layer indices, not"),
        (["0"], "must return layer indices, not"),
        ([True, False], "must return layer indices, not"),
        ([], "returned no layer"),
        ([0, 4], "returned layer 4, but the model has layers 0 to 3"),
        ([-1], "returned layer -1"),
        ([1, 0, 1], "returned a layer twice: [1, 0, 1]"),
    ],
)
def test_wrong_layers_are_named(layers, message):
    with pytest.raises(UsageError) as caught:
        check_layers(Any(4), layers, "layers(1)")
    assert message in str(caught.value) and "layers(1)" in str(caught.value)


def test_a_method_must_write_its_one_function():
    @dataclass(frozen=True)
    class Idle(EarlyExit):
        pass

    with pytest.raises(NotImplementedError, match="does not implement should_exit"):
        Idle(4).should_exit(0, None)
    with pytest.raises(NotImplementedError, match="does not implement layers"):
        Any(4).plan(1)
    assert Idle(4).recipe(3) == {"objective": "multi_exit"}


def test_a_value_error_of_a_method_is_one_line():
    @dataclass(frozen=True)
    class Picky(LayerSchedule):
        name: ClassVar[str] = "picky"
        keep: int = 2

        def __post_init__(self):
            super().__post_init__()
            if self.keep >= self.num_layers:
                raise ValueError(f"keep must lie below {self.num_layers}")

        def layers(self, step):
            return range(self.keep)

        @classmethod
        def for_target(cls, num_layers, target, lengths=None):
            if target > 2:
                raise ValueError("too fast")
            return cls(num_layers)

    with pytest.raises(UsageError, match="method parameters: keep must lie below 4"):
        build_method(Picky, 4, keep=4)
    with pytest.raises(UsageError, match="picky cannot be built for 3x on 4 layers: too fast"):
        build_method(Picky, 4, 3)
