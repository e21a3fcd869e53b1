"""A method's parameters in run.json: read back they make exactly the same method, whatever kinds of fields it has."""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import LayerSchedule, load_method
from harness.errors import UsageError
from harness.method.forms import parameter_forms
from harness.method.parameters import build_method, check_parameters
from harness.method.recording import record_parameters, recorded, restore_method
from harness.registry import METHODS
from harness.results.encoding import dumps, loads
from harness.tuning.calibrate import with_value

if TYPE_CHECKING:
    from torch import Tensor


class Mode(enum.Enum):
    PLAIN = "plain"
    ODD = 3


@dataclass(frozen=True)
class Window:
    first: int
    width: float = math.inf
    end: float = field(init=False, default=0.0)

    def __post_init__(self):
        object.__setattr__(self, "end", self.first + self.width)


@dataclass(frozen=True)
class Everything(LayerSchedule):
    """Every kind of field a plug-in may have."""

    name: ClassVar[str] = "everything"
    order: tuple = field(init=False, default=())
    rng: object = field(init=False, default_factory=object)
    keep: list[int] = field(default_factory=lambda: [1, 2])
    pairs: tuple[tuple[int, float], ...] = ((1, 2.0),)
    loose: object = field(default_factory=list)
    limit: float = math.inf
    bounds: tuple[float | None, ...] = (-math.inf, math.nan, None)
    costs: dict[int, float] = field(default_factory=lambda: {1: 0.5})
    window: Window = Window(1)
    windows: dict[str, Window] = field(default_factory=dict)
    chosen: frozenset[int] = frozenset({3, 1})
    marks: set[str] = field(default_factory=set)
    mode: Mode = Mode.PLAIN
    side: Literal["left", "right"] = "left"
    word: str = "inf"
    weights: Tensor | None = None

    def layers(self, step):
        return range(self.num_layers)


GIVEN = {  # as a suite's YAML would say them
    "keep": [3],
    "pairs": [[1, 2], [3, 4.5]],
    "limit": 2,
    "bounds": [1, math.inf],
    "costs": {2: 1.5},
    "window": {"first": 2, "width": 3.0},
    "windows": {"a": {"first": 1}},
    "chosen": [5, 4, 5],
    "marks": ["x"],
    "mode": 3,
    "side": "right",
    "word": "nan",
}


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    monkeypatch.setitem(METHODS.classes, "everything", Everything)


def again(method):
    return restore_method(method.name, method.num_layers, loads(dumps(record_parameters(method))))


def shown(value: object) -> str:
    """Type and value, so that 1, 1.0 and True are told apart and a NaN is one."""
    return repr((type(value), sorted(value) if isinstance(value, (set, frozenset)) else value))


def same(a, b) -> bool:
    return all(shown(getattr(a, n)) == shown(getattr(b, n)) for n in ("order", *GIVEN, "loose", "weights"))


@pytest.mark.parametrize("key", [None, *GIVEN])
def test_every_kind_of_field_can_be_given_and_comes_back_as_it_was(key):
    method = load_method("everything", 4, **({key: GIVEN[key]} if key else {}))
    if key:
        assert type(getattr(method, key)) is type(getattr(Everything(4), key))
        assert not same(method, Everything(4))
    assert same(again(method), method)
    assert "order" not in record_parameters(method) and "rng" not in record_parameters(method)


def test_the_variant_is_the_same_in_every_process():
    method = load_method("everything", 4, marks=["b", "a", "c"])
    assert "marks={a, b, c}" in method.variant and "chosen={1, 3}" in method.variant
    assert "rng" not in method.variant and "order" not in method.variant  # which nobody gives
    assert method.variant == again(method).variant


def test_given_values_are_what_they_mean():
    method = load_method("everything", 4, **GIVEN)
    assert method.keep == [3] and method.pairs == ((1, 2.0), (3, 4.5)) and method.costs == {2: 1.5}
    assert method.window == Window(2, 3.0) and method.windows == {"a": Window(1)} and method.window.end == 5
    assert method.chosen == {4, 5} and method.mode is Mode.ODD and method.marks == {"x"}
    assert load_method("everything", 4, mode=Mode.ODD, chosen=frozenset({7})).mode is Mode.ODD


@pytest.mark.parametrize(
    "key, value", [("keep", ["1"]), ("keep", 3), ("chosen", [1.5]), ("mode", "even"), ("side", "up"), ("costs", [1]),
                   ("window", {"width": 1.0}), ("limit", "2"), ("limit", "inf"), ("marks", [1])],
)  # fmt: skip
def test_types_are_as_strict_as_ever(key, value):
    with pytest.raises(UsageError, match=f"everything: parameter {key}="):
        load_method("everything", 4, **{key: value})


NUMBERS = st.floats() | st.integers(-9, 9)


@given(st.lists(st.integers()), st.lists(st.none() | NUMBERS), NUMBERS, st.dictionaries(st.integers(), st.floats()),
       st.sets(st.integers()), st.text())  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_what_is_built_comes_back(keep, bounds, limit, costs, chosen, word):
    METHODS.classes["everything"] = Everything
    given = {"keep": keep, "bounds": bounds, "limit": limit, "costs": costs, "chosen": chosen, "word": word}
    method = build_method(Everything, 4, **given)
    assert same(again(method), method)


def test_other_parameters_are_recorded_otherwise():
    """An infinity is no null, so two runs that differ in it are told apart."""
    values = [math.inf, -math.inf, math.nan, None, 0.0]
    assert len({dumps(recorded({"limit": value})) for value in values}) == len(values)
    assert recorded({"a": np.float32(0.5), "b": (np.int64(2),)}) == {"a": 0.5, "b": [2]}


@pytest.mark.parametrize(
    "built, reason",
    [
        ({"loose": len}, "loose=.*a builtin_function_or_method is no JSON value"),
        ({"loose": np.zeros(3)}, "loose=.*a ndarray is no JSON value"),
        ({"loose": {1: 2}}, "loose=.*would be read back from run.json as {'1': 2}"),
        ({"loose": math.inf}, "loose=inf would be read back from run.json as 'inf'"),
        ({"loose": {(1, 2): 3}}, "loose=.*a key is a text or a whole number"),
        ({"loose": Mode.ODD}, "loose=.*would be read back"),
        ({"weights": b"\x00"}, "weights=.*a bytes is no JSON value"),
    ],
)
def test_what_would_come_back_otherwise_is_refused_by_name(built, reason):
    with pytest.raises(UsageError, match=f"everything: parameter {reason}"):
        record_parameters(Everything(4, **built))


def test_a_value_of_another_type_than_is_declared_still_comes_back():
    built = {"mode": True, "keep": (1, 2), "pairs": [3.0], "side": 2.5, "costs": None, "limit": "far"}
    assert same(again(Everything(4, **built)), Everything(4, **{**built, "keep": [1, 2], "pairs": (3.0,)}))


def test_a_method_that_counts_twice_is_refused():
    @dataclass(frozen=True)
    class Doubling(LayerSchedule):
        name: ClassVar[str] = "doubling"
        depth: int = 1

        def __post_init__(self):
            object.__setattr__(self, "depth", 2 * self.depth)

    with pytest.raises(UsageError, match="doubling: parameter depth=2 would be read back from run.json as 4"):
        record_parameters(Doubling(4))


def test_a_type_that_cannot_be_read_hurts_only_who_gives_the_parameter():
    assert load_method("everything", 4).weights is None
    assert check_parameters(Everything, {"keep": [1]}) == {"keep": [1]}
    assert {"side": "right"} in parameter_forms(Everything)
    with pytest.raises(UsageError) as caught:
        load_method("everything", 4, weights=[1.0])
    for part in ("everything: parameter weights", "'Tensor | None'", "'Tensor' is not defined", "TYPE_CHECKING"):
        assert part in str(caught.value)


def test_a_type_that_pydantic_does_not_know_is_told_by_isinstance():
    @dataclass(frozen=True)
    class Odd(LayerSchedule):
        name: ClassVar[str] = "odd"
        thing: LayerSchedule | None = None  # a dataclass
        other: type(len) | None = None  # a class of somebody's own
        rows: Mapping[str, int] | None = None

    assert build_method(Odd, 4, rows={"a": 1}).rows == {"a": 1}
    assert build_method(Odd, 4, other=len).other is len
    with pytest.raises(UsageError, match="odd: parameter other=3: input should be an instance of"):
        build_method(Odd, 4, other=3)


def test_a_searched_value_leaves_the_other_parameters_as_they_are():
    method = Everything(4, keep=[7], loose={1: 2}, limit=1.0)
    object.__setattr__(method, "search", ("limit", 0.0, 1.0))
    found = with_value(method, 0.5)
    assert (found.limit, found.keep, found.loose, found.weights) == (0.5, [7], {1: 2}, None)
