"""What a method is: a frozen dataclass in one file whose fields are its parameters.

A *schedule* decides from the step alone which layers run. An *early exit* decides from the hidden states. A
*speculative* method runs all layers in the end, on several tokens at once, some of them guessed. All leave the layers,
the cache and the loop to the engine, which checks what they say.
"""

from __future__ import annotations

import dataclasses
import inspect
import operator
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from .errors import UsageError, unknown
from .registry import METHODS

if TYPE_CHECKING:
    from torch import BoolTensor, Tensor

KV_POLICIES = ("closed", "propagate", "oracle")


@dataclass(frozen=True)
class Lengths:
    """Token lengths of a task's training examples, from which schedules take their horizon.

    `prompt` and `output` are medians; `outputs` holds the output lengths themselves (EOS included).
    """

    prompt: int
    output: int
    outputs: tuple[int, ...] = ()


@dataclass(frozen=True)
class Method:
    """Base of all methods. `num_layers` is the model's number of decoder layers."""

    num_layers: int

    name: ClassVar[str] = ""
    kv_policy: ClassVar[str] = "closed"
    speed_parameters: ClassVar[tuple[str, ...]] = ()  # parameters that say how fast it is, in a target's stead

    def __post_init__(self) -> None:
        if self.num_layers < 1:
            raise UsageError(f"num_layers must be at least 1, not {self.num_layers}")

    def prompt_layers(self) -> Sequence[int]:
        """Layers the prompt runs; all of them unless a method opts out."""
        return range(self.num_layers)

    def recipe(self, horizon: int) -> dict:
        """What training must know, as JSON values; decoding-only parameters are left out.

        Methods with the same recipe share a checkpoint. `horizon` is the number of decode steps a plan must cover.
        """
        raise NotImplementedError

    @property
    def variant(self) -> str:
        """The parameters as one short string, for tables."""
        shown = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name != "num_layers"}
        return " ".join(f"{key}={_short(value)}" for key, value in shown.items() if value is not None)


@dataclass(frozen=True)
class LayerSchedule(Method):
    """A method whose layers depend on the decode step alone, so every row of a batch runs the same ones.

    Optional: `with_lengths(parameters, lengths)` fills in a horizon from the training lengths; `tuned_counts` (counts
    of layers) and `tuning_candidates(num_layers, target, lengths, **parameters)` let `skipbench tune` choose.
    """

    def layers(self, step: int) -> Sequence[int]:
        """Indices (0-based) of the layers that run at decode step `step`, counted from 1."""
        raise NotImplementedError(f"method {self.name!r} does not implement layers(step)")

    def plan(self, steps: int) -> list[tuple[int, ...]]:
        """The checked layers of decode steps 1..`steps`, ascending."""
        return [check_layers(self, self.layers(step), f"layers({step})") for step in range(1, steps + 1)]

    def recipe(self, horizon: int) -> dict:
        """Train under the plan itself."""
        return {
            "objective": "plan",
            "prompt": list(check_layers(self, self.prompt_layers(), "prompt_layers()")),
            "steps": [list(layers) for layers in self.plan(horizon)],
        }


@dataclass(frozen=True)
class EarlyExit(Method):
    """A method that leaves at a layer of its own choice, row by row.

    The last layer is never asked; it is simply the end. `search` names the parameter that trades speed for quality and
    its range, so that a target speed-up can be met by a search on validation examples: a larger value exits later.
    """

    kv_policy: ClassVar[str] = "propagate"
    search: ClassVar[tuple[str, float, float] | None] = None

    def should_exit(self, layer: int, state) -> BoolTensor:
        """Bool [batch]: which rows may leave after layer `layer` (0-based).

        `state.hidden`, `state.previous` are the hidden states [batch, width] after this layer and before it;
        `state.logits()` the head's logits [batch, vocabulary], computed on demand and counted; `state.step` counts
        decode steps from 1 and `state.max_steps` is their maximum. `state.exit_classifier` [width + 1] are the weights
        and bias of the checkpoint's classifier; `state.last_logits()` the last layer's, under `kv_policy = "oracle"`.
        """
        raise NotImplementedError(f"method {self.name!r} does not implement should_exit(layer, state)")

    def recipe(self, horizon: int) -> dict:
        """Train every layer as a possible exit."""
        return {"objective": "multi_exit"}


@dataclass(frozen=True)
class Speculative(Method):
    """A lossless method: tokens are guessed cheaply and checked at full depth, so the output is the greedy one.

    The engine owns guessing, checking and exact rollback, row by row; a method says how guesses come about:

    - Draft and verify, on any model: `draft_layers()` guess up to `draft_tokens` tokens, one a pass; then one pass of
      all layers over them finds the true ones. If the draft layers are the first ones, their states, keys and values
      are used on; those of any other subset are computed anew.
    - Pipelined (`pipelined = True`), on looped decoders: the first cycle guesses, and the guess follows its parent
      through the cycles, all of which are rows of one batch of the shared layers.
    """

    pipelined: ClassVar[bool] = False
    draft_tokens: ClassVar[int] = 4  # a subclass may make it a parameter

    def draft_layers(self) -> Sequence[int]:
        """Indices (0-based) of the layers that draft; a pipelined method has none."""
        raise NotImplementedError(f"method {self.name!r} does not implement draft_layers()")

    def guess(self, logits: Tensor, rows: Tensor, places: Tensor) -> Tensor:
        """Token ids [guesses] from the draft's logits [guesses, vocabulary].

        `rows` [guesses] are the rows of the batch as it was given, `places` [guesses] the places in the row's output,
        from 0, of the tokens guessed. A bad guess costs time and changes no output.
        """
        return logits.argmax(-1)

    def recipe(self, horizon: int) -> dict:
        """Train every exit that may guess: the ends of the cycles, or every layer."""
        return {"objective": "cycles" if self.pipelined else "multi_exit"}


def check_kv_policy(method: Method) -> None:
    """Raise UsageError for a policy that does not exist or means nothing for the kind of method."""
    policies = KV_POLICIES if isinstance(method, EarlyExit) else ("closed", "propagate")
    policies = ("closed",) if isinstance(method, Speculative) else policies
    if method.kv_policy not in policies:
        raise unknown(f"kv_policy of method {method.name!r}:", method.kv_policy, policies)


def check_layers(method: Method, layers: Sequence[int], where: str) -> tuple[int, ...]:
    """`layers` ascending, or UsageError naming what is wrong: empty, repeated, out of range, not integers."""
    try:
        layers = list(layers)
        if any(isinstance(i, bool) for i in layers):
            raise TypeError
        indices = [operator.index(i) for i in layers]
    except TypeError:
        raise UsageError(f"method {method.name!r}: {where} must return layer indices, not {layers!r}") from None
    if not indices:
        raise UsageError(f"method {method.name!r}: {where} returned no layer; at least one must run")
    outside = [i for i in indices if not 0 <= i < method.num_layers]
    if outside:
        raise UsageError(
            f"method {method.name!r}: {where} returned layer {outside[0]}, but the model has layers 0 to "
            f"{method.num_layers - 1}"
        )
    if len(set(indices)) != len(indices):
        raise UsageError(f"method {method.name!r}: {where} returned a layer twice: {indices}")
    return tuple(sorted(indices))


def load_method(
    name: str, num_layers: int, target: float | None = None, lengths: Lengths | None = None, **parameters
) -> Method:
    """The method registered as `name`, from its parameters or from a target layer-count speed-up.

    Raises UsageError for unknown names, unknown or ill-typed parameters and targets that cannot be met. A method
    without `for_target` ignores the target: it runs once, at whatever speed it has.
    """
    return build_method(METHODS.load(name), num_layers, target, lengths, **parameters)


def build_method(
    cls: type[Method], num_layers: int, target: float | None = None, lengths: Lengths | None = None, **parameters
) -> Method:
    """As `load_method`, from the class itself."""
    if not (isinstance(cls, type) and issubclass(cls, Method) and dataclasses.is_dataclass(cls)):
        raise UsageError(
            f"method {getattr(cls, 'name', None) or cls!r} must be a frozen dataclass that extends LayerSchedule, "
            "EarlyExit or Speculative"
        )
    if _is_undecorated(cls):
        raise UsageError(f"method {cls.name!r}: its parameters are no fields; put @dataclass(frozen=True) on the class")
    if lengths is not None and not isinstance(lengths, Lengths):
        raise UsageError(f"lengths are Lengths(prompt=…, output=…), in tokens, not {lengths!r:.60}")
    values = check_parameters(cls, {"num_layers": num_layers, **parameters})
    build = getattr(cls, "for_target", None)
    if target is None or build is None:
        if lengths is not None and hasattr(cls, "with_lengths"):
            values = cls.with_lengths(values, lengths)
        _check_complete(cls, values)
        return _construct(cls, values)
    check_target(target, num_layers)
    if fixes_speed(cls, parameters):
        raise UsageError(f"{cls.name}: give a target speed-up or {' and '.join(cls.speed_parameters)}, not both")
    known = inspect.signature(build).parameters
    takes_parameters = any(p.kind is p.VAR_KEYWORD for p in known.values())
    extra = {k: v for k, v in values.items() if k != "num_layers"}
    try:
        method = build(num_layers, float(target), lengths, **(extra if takes_parameters else {}))
    except ValueError as error:
        raise UsageError(f"{cls.name} cannot be built for {target:g}x on {num_layers} layers: {error}") from error
    if not isinstance(method, cls):
        raise UsageError(f"method {cls.name!r}: for_target must return a {cls.__name__}, not {method!r:.60}")
    return method if takes_parameters or not extra else _construct(dataclasses.replace, extra, method)


def _is_undecorated(cls: type[Method]) -> bool:
    """Whether a class inherits being a dataclass and names parameters of its own, which nobody could then set."""
    annotations = inspect.get_annotations(cls).values()
    return "__dataclass_fields__" not in vars(cls) and any("ClassVar" not in str(kind) for kind in annotations)


def restore_method(name: str, num_layers: int, parameters: Mapping[str, object]) -> Method:
    """A method from every parameter it once had, as run.json records them."""
    cls = METHODS.load(name)
    return _construct(cls, check_parameters(cls, {"num_layers": num_layers, **parameters}))


def check_target(target: float, num_layers: int) -> float:
    """A target speed-up as a number from 1 to `num_layers`, or UsageError."""
    target = _plain(target)
    number = isinstance(target, (int, float)) and not isinstance(target, bool)
    if not number or not 1 <= target <= num_layers:
        raise UsageError(
            f"a target speed-up is a number from 1 to the number of layers ({num_layers}), not {target!r}; "
            "2 means half the layers"
        )
    return float(target)


def takes_target(cls: type[Method]) -> bool:
    """Whether a method can be built or calibrated for a target speed-up."""
    return hasattr(cls, "for_target") or getattr(cls, "search", None) is not None


def fixes_speed(cls: type[Method], parameters: Mapping[str, object]) -> bool:
    """Whether parameters already say how fast a method is, so that it takes no target."""
    return any(parameters.get(key) is not None for key in cls.speed_parameters)


def _check_complete(cls: type[Method], values: Mapping[str, object]) -> None:
    no_default = dataclasses.MISSING
    needed = [f for f in dataclasses.fields(cls) if f.init and f.default is f.default_factory is no_default]
    missing = [f.name for f in needed if f.name not in values]
    if missing:
        instead = " or a target speed-up" if hasattr(cls, "for_target") else ""
        raise UsageError(f"{cls.name or cls.__name__}: give {' and '.join(missing)}{instead}")


def _construct(build, values: dict, *args) -> Method:
    try:
        return build(*args, **values)
    except (TypeError, ValueError) as error:
        raise UsageError(f"method parameters: {error}") from error


def check_parameters(cls: type[Method], values: Mapping[str, object]) -> dict:
    """The values with plain types; raises UsageError for a name that is no parameter or a value of another type."""
    from pydantic import TypeAdapter, ValidationError

    fields = {f.name for f in dataclasses.fields(cls) if f.init}
    hints = typing.get_type_hints(cls)
    checked = {}
    for key, value in values.items():
        if key not in fields:
            raise unknown(f"parameter of {cls.name}", key, fields - {"num_layers"})
        value = _plain(value)
        value = tuple(value) if isinstance(value, list) else value
        try:
            checked[key] = TypeAdapter(hints[key]).validate_python(value, strict=True)
        except ValidationError as error:
            reason = error.errors()[0]["msg"].lower()
            raise UsageError(f"{cls.name}: parameter {key}={value!r}: {reason}") from error
    return checked


def _plain(value: object) -> object:
    """Numpy and torch scalars as numbers, longer arrays as lists, anything else as it is."""
    if not hasattr(value, "item"):
        return value
    try:
        return value.item()
    except (ValueError, RuntimeError):  # numpy's and torch's word for more than one value
        return value.tolist()


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
