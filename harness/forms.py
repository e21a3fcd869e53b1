"""Which parameters a method is tried with when it is validated."""

from __future__ import annotations

import dataclasses
import typing

from .method import Method

TARGETS = (2.0, 3.0, 1.5)


def parameter_forms(cls: type[Method]) -> list[dict]:
    """Keywords of `build_method`: targets or the defaults, the ends and middle of a search, each option of a field."""
    if not (isinstance(cls, type) and dataclasses.is_dataclass(cls)):
        return [{}]  # refused with a reason when it is built
    targeted = hasattr(cls, "for_target")
    forms = [{"target": target} for target in TARGETS] if targeted else [{}]
    search = getattr(cls, "search", None)
    if search:
        name, low, high = search
        forms += [{name: value} for value in (low, (low + high) / 2, high)]
    hints = typing.get_type_hints(cls)
    for parameter in dataclasses.fields(cls):
        for option in _options(hints[parameter.name]):
            if option != parameter.default:
                forms.append({**({"target": TARGETS[0]} if targeted else {}), parameter.name: option})
    return forms


def _options(hint: object) -> tuple:
    if hint is bool:
        return (False, True)
    return typing.get_args(hint) if typing.get_origin(hint) is typing.Literal else ()
