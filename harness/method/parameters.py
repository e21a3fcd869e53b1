"""From a name and parameters, or a target speed-up, to a method; every value is checked before anything is built."""

from __future__ import annotations

import dataclasses
import inspect
import json
import sys
import typing
from collections.abc import Mapping

from ..errors import UsageError, unknown
from ..registry import METHODS
from .method import Lengths, Method


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
    check_class(cls)
    if lengths is not None and not isinstance(lengths, Lengths):
        raise UsageError(f"lengths are Lengths(prompt=…, output=…), in tokens, not {lengths!r:.60}")
    values = check_parameters(cls, {"num_layers": num_layers, **parameters})
    build = getattr(cls, "for_target", None)
    if target is None or build is None:
        if lengths is not None and hasattr(cls, "with_lengths"):
            values = cls.with_lengths(values, lengths)
        _check_complete(cls, values)
        return construct(cls, values)
    check_target(target, num_layers)
    if fixes_speed(cls, parameters):
        raise UsageError(f"{cls.name}: give a target speed-up or {' and '.join(_speed_parameters(cls))}, not both")
    known = inspect.signature(build).parameters
    takes_parameters = any(p.kind is p.VAR_KEYWORD for p in known.values())
    extra = {k: v for k, v in values.items() if k != "num_layers"}
    try:
        method = build(num_layers, float(target), lengths, **(extra if takes_parameters else {}))
    except ValueError as error:
        raise UsageError(f"{cls.name} cannot be built for {target:g}x on {num_layers} layers: {error}") from error
    if not isinstance(method, cls):
        raise UsageError(f"method {cls.name!r}: for_target must return a {cls.__name__}, not {method!r:.60}")
    return method if takes_parameters or not extra else construct(dataclasses.replace, extra, method)


def check_class(cls: type) -> None:
    """Raise UsageError for a class that is no method, or whose parameters nobody could set."""
    if not (isinstance(cls, type) and issubclass(cls, Method) and dataclasses.is_dataclass(cls)):
        raise UsageError(
            f"method {getattr(cls, 'name', None) or cls!r} must be a frozen dataclass that extends LayerSchedule, "
            "EarlyExit or Speculative"
        )
    if _is_undecorated(cls):
        raise UsageError(f"method {cls.name!r}: its parameters are no fields; put @dataclass(frozen=True) on the class")


def _is_undecorated(cls: type[Method]) -> bool:
    """Whether a class inherits being a dataclass and names parameters of its own, which nobody could then set."""
    annotations = inspect.get_annotations(cls).values()
    return "__dataclass_fields__" not in vars(cls) and any("ClassVar" not in str(kind) for kind in annotations)


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
    return any(parameters.get(key) is not None for key in _speed_parameters(cls))


def _speed_parameters(cls: type[Method]) -> tuple[str, ...]:
    """Those a class names, and the one a search would choose: a value that was given is never replaced."""
    search = getattr(cls, "search", None)
    return tuple(dict.fromkeys((*cls.speed_parameters, *(search[:1] if search else ()))))


def _check_complete(cls: type[Method], values: Mapping[str, object]) -> None:
    no_default = dataclasses.MISSING
    needed = [f for f in dataclasses.fields(cls) if f.init and f.default is f.default_factory is no_default]
    missing = [f.name for f in needed if f.name not in values]
    if missing:
        instead = " or a target speed-up" if hasattr(cls, "for_target") else ""
        raise UsageError(f"{cls.name or cls.__name__}: give {' and '.join(missing)}{instead}")


def construct(build, values: dict, *args) -> Method:
    """What `build` makes of the values; UsageError if it does not take them."""
    try:
        return build(*args, **values)
    except (TypeError, ValueError) as error:
        raise UsageError(f"method parameters: {error}") from error


def check_parameters(cls: type[Method], values: Mapping[str, object]) -> dict:
    """The values with plain types; raises UsageError for a name that is no parameter or a value of another type."""
    fields = {f.name for f in dataclasses.fields(cls) if f.init}
    for key in values:
        if key not in fields:
            raise unknown(f"parameter of {cls.name}", key, fields - {"num_layers"})
    return {key: check_value(cls, key, value) for key, value in values.items()}


def check_value(cls: type[Method], key: str, value: object) -> object:
    """A parameter's value as its declared type has it; UsageError for one of another type.

    Types are strict: no text passes for a number. But a file or command line knows lists, mappings and texts alone, so
    these are read as the tuple, set, dataclass, enum, … that is declared.
    """
    from pydantic import ValidationError
    from pydantic.errors import PydanticUserError

    hint, value = type_hint(cls, key), _plain(value)
    value = tuple(value) if isinstance(value, list) else value
    try:
        return _converted(hint, value)
    except ValidationError as error:
        reason = error.errors()[0]["msg"].lower()
        raise UsageError(f"{cls.name}: parameter {key}={value!r}: {reason}") from error
    except PydanticUserError as error:
        raise UsageError(f"{cls.name}: parameter {key} cannot be given: nothing is known of its type {hint}") from error


def _converted(hint: object, value: object) -> object:
    """The value as it is if it fits, else as a file means it."""
    from pydantic import TypeAdapter, ValidationError
    from pydantic.errors import PydanticSchemaGenerationError

    try:
        adapter = TypeAdapter(hint)
    except PydanticSchemaGenerationError:  # a class of somebody's own, which isinstance can tell
        adapter = TypeAdapter(hint, config={"arbitrary_types_allowed": True})
    try:
        return adapter.validate_python(value, strict=True)
    except ValidationError as refusal:
        try:
            return adapter.validate_json(json.dumps(value, default=list), strict=True)
        except ValidationError as error:
            no_file_could = error.errors()[0]["type"] == "needs_python_object"
            raise (refusal if no_file_could else error) from None
        except (TypeError, ValueError):  # no file holds this
            raise refusal from None


def type_hint(cls: type[Method], key: str) -> object:
    """The type that a parameter is declared with; UsageError if its text means nothing where the class was written."""
    field = {f.name: f for f in dataclasses.fields(cls)}.get(key)
    if field is None:
        raise UsageError(f"{cls.name}: {key!r} is none of its parameters")
    owner = [c for c in cls.__mro__ if vars(c).get("__dataclass_fields__", {}).get(key) is field][-1]
    module = getattr(sys.modules.get(owner.__module__), "__dict__", {})
    alone = type(key, (), {"__annotations__": {key: field.type}})  # the type of another may be unreadable
    try:
        return typing.get_type_hints(alone, dict(vars(owner)), module)[key]
    except Exception as error:  # whatever evaluating a text raises
        raise UsageError(
            f"{cls.name}: parameter {key} cannot be given: its type {field.type!r} cannot be read ({error}); import "
            "what it names outside `if TYPE_CHECKING`, or leave the parameter out"
        ) from error


def _plain(value: object) -> object:
    """Numpy and torch scalars as numbers, longer arrays as lists, anything else as it is."""
    if not hasattr(value, "item"):
        return value
    try:
        return value.item()
    except (ValueError, RuntimeError):  # numpy's and torch's word for more than one value
        return value.tolist()
