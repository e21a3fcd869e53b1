"""A method's parameters as run.json holds them, and back: what is recorded makes exactly the same method again."""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Mapping, Set
from pathlib import PurePath

from ..errors import UsageError
from ..registry import METHODS
from ..results.encoding import dumps, loads, plain
from .method import Method
from .parameters import check_value, construct


def record_parameters(method: Method) -> dict:
    """Every parameter of a method, as JSON values of which `restore_method` makes the same method.

    Raises UsageError naming the parameter that cannot be recorded so. Fields that follow from others (`init=False`) are
    no parameters.
    """
    cls = type(method)
    names = [f.name for f in dataclasses.fields(cls) if f.init and f.name != "num_layers"]
    values = {name: record_value(cls, name, getattr(method, name)) for name in names}
    again = _restored(cls, method.num_layers, loads(dumps(values)))
    for name in names:
        old, new = getattr(method, name), getattr(again, name)
        if not _same(old, new):
            raise UsageError(
                f"{cls.name}: parameter {name}={old!r:.60} would be read back from run.json as {new!r:.60}; "
                "declare its type, and use numbers, texts and lists, sets, mappings, enums or dataclasses of them"
            )
    return values


def record_value(cls: type[Method], name: str, value: object) -> object:
    """One parameter as a JSON value; UsageError if JSON cannot hold it."""
    try:
        return recorded(value)
    except (TypeError, ValueError) as error:
        raise UsageError(
            f"{cls.name}: parameter {name}={value!r:.60} cannot be recorded in run.json ({error}); use numbers, texts "
            "and lists, sets, mappings, enums or dataclasses of them, or make it no field"
        ) from error


def restore_method(name: str, num_layers: int, parameters: Mapping[str, object]) -> Method:
    """The method of which `record_parameters` recorded these. Raises UsageError if they make none."""
    return _restored(METHODS.load(name), num_layers, parameters)


def recorded(value: object) -> object:
    """A value as JSON holds it, infinities and NaN as words; TypeError for what JSON cannot hold."""
    if isinstance(value, enum.Enum):
        return recorded(value.value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(float(value))
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: recorded(getattr(value, f.name)) for f in dataclasses.fields(value) if f.init}
    if isinstance(value, Mapping):
        return {_recorded_key(key): recorded(item) for key, item in value.items()}
    if isinstance(value, Set):
        return sorted(map(recorded, value), key=dumps)
    if isinstance(value, (list, tuple)):
        return [recorded(item) for item in value]
    if getattr(value, "shape", None) == ():  # a number of numpy's or torch's
        return recorded(value.item())
    if value is None or isinstance(value, (str, int, float, PurePath)):
        return plain(value)
    raise TypeError(f"a {type(value).__name__} is no JSON value")


def _recorded_key(key: object) -> str:
    key = recorded(key)
    if isinstance(key, (str, int)) and not isinstance(key, bool):
        return str(key)
    raise TypeError(f"a key is a text or a whole number, not {key!r}")


def _restored(cls: type[Method], num_layers: int, parameters: Mapping[str, object]) -> Method:
    fields = {f.name: f for f in dataclasses.fields(cls) if f.init}
    given = {k: v for k, v in parameters.items() if k not in fields or not _is_default(fields[k], v)}
    return construct(cls, {"num_layers": num_layers, **{k: _value(cls, k, v) for k, v in given.items()}})


def _is_default(field: dataclasses.Field, value: object) -> bool:
    """Whether a recorded value is what a field holds that nobody gives; then its type need not be readable."""
    missing = dataclasses.MISSING
    default = field.default if field.default_factory is missing else field.default_factory()
    try:
        return default is not missing and recorded(default) == value
    except (TypeError, ValueError):
        return False


def _value(cls: type[Method], key: str, value: object) -> object:
    """A recorded value as the parameter's type has it; as it stands there if that does not take it."""
    for form in (value, _with_infinities(value)):
        try:
            return check_value(cls, key, form)
        except UsageError:
            continue
    return tuple(value) if isinstance(value, list) else value


def _with_infinities(value: object) -> object:
    if isinstance(value, list):
        return [_with_infinities(item) for item in value]
    if isinstance(value, dict):
        return {key: _with_infinities(item) for key, item in value.items()}
    return float(value) if value in ("inf", "-inf", "nan") else value


def _same(a: object, b: object) -> bool:
    """Whether two values are alike; a list passes for a tuple, a NaN for another."""
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(_same, a, b))
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    if isinstance(a, float) and isinstance(b, float) and math.isnan(a):
        return math.isnan(b)
    alike = all(isinstance(a, kind) == isinstance(b, kind) for kind in (bool, enum.Enum))
    return alike and bool(a == b)
