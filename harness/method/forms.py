"""Which parameters a method is tried with when it is validated, and which values a search may give one."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping

from ..errors import UsageError
from .method import Method
from .parameters import fixes_speed, type_hint

TARGETS = (2.0, 3.0, 1.5)


def parameter_forms(cls: type[Method], given: Mapping[str, object] | None = None) -> list[dict]:
    """Keywords of `build_method`: targets or the defaults, the ends and middle of a search, each option of a field.

    `given` parameters are part of every form and are not varied.
    """
    given = dict(given or {})
    if not (isinstance(cls, type) and dataclasses.is_dataclass(cls)):
        return [given]  # refused with a reason when it is built
    targeted = hasattr(cls, "for_target") and not fixes_speed(cls, given)
    forms = [{"target": target} for target in TARGETS] if targeted else [{}]
    forms += [{**({"target": TARGETS[0]} if targeted else {}), **option} for option in _options(cls)]
    search = getattr(cls, "search", None)
    if search:
        name, low, high = search
        values = dict.fromkeys(searched(cls, value) for value in (low, (low + high) / 2, high))
        forms[1:1] = [{name: value} for value in values]
    return [{**form, **given} for form in forms if not form.keys() & given.keys()]


def searched(cls: type[Method], value: float) -> float:
    """A value of the `search` parameter that it can hold: rounded where the field is an int."""
    hint = type_hint(cls, cls.search[0])
    kinds = {hint, *typing.get_args(hint)}
    return round(value) if int in kinds and float not in kinds else value


def _options(cls: type[Method]) -> list[dict]:
    """One field set to one of its other values, for `Literal` and bool fields, optional ones too."""
    return [
        {parameter.name: option}
        for parameter in dataclasses.fields(cls)
        for option in _values(cls, parameter.name)
        if option != parameter.default
    ]


def _values(cls: type[Method], name: str) -> tuple:
    try:
        return _choices(type_hint(cls, name))
    except UsageError:  # that of a parameter which cannot be given
        return ()


def _choices(hint: object) -> tuple:
    """The values of a bool or `Literal` type, or of those in a union."""
    if hint is bool:
        return (False, True)
    if typing.get_origin(hint) is typing.Literal:
        return typing.get_args(hint)
    is_union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    return tuple(value for part in typing.get_args(hint) for value in _choices(part)) if is_union else ()
