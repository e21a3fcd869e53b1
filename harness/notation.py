"""How things are written: YAML, and the command line's short forms of methods and target speed-ups."""

from __future__ import annotations

from typing import Any

import yaml

from .errors import UsageError


class _NoKeyTwice(yaml.SafeLoader):
    """PyYAML lets a later key win without a word."""

    def construct_mapping(self, node, deep=False):
        keys = [key.value for key, _ in node.value]
        twice = next((key for key in keys if keys.count(key) > 1), None)
        if twice is not None:
            raise yaml.constructor.ConstructorError(None, None, f"{twice!r} stands there twice", node.start_mark)
        return super().construct_mapping(node, deep)


def read_yaml(text: str, where: str) -> Any:
    """YAML read in the safe way; UsageError in one line if it is none or names a key twice."""
    try:
        return yaml.load(text, _NoKeyTwice)
    except (yaml.YAMLError, ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        # a date that is none, nesting too deep, a tag that does not fit its value
        raise UsageError(f"{where} is no valid YAML: {' '.join(str(error).split())}") from error


def parse_method(text: str) -> dict[str, Any]:
    """`name` or `name:key=value:key=value` from the command line; values are read as YAML.

    `tuned` is an artefact, `model` the model it runs on.
    """
    name, *pairs = text.split(":")
    params = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise UsageError(f"method {text!r}: parameters are written name:key=value, not {pair!r}")
        params[key.strip()] = read_yaml(value, f"method {text!r}: the value of {key.strip()}")
    settings = {key: params.pop(key) for key in ("tuned", "transfer", "model") if key in params}
    return {"name": name.strip(), "params": params, **settings}


def parse_target(text: str) -> float:
    """A target speed-up from the command line: `2` or `2x`."""
    try:
        return check_speedup(float(text.lower().removesuffix("x")))
    except ValueError:
        raise UsageError(
            f"a target speed-up is a number from 1 to the model's number of layers, such as 2, not {text!r}"
        ) from None


def check_speedup(value: float) -> float:
    """A target speed-up that could be meant, or ValueError; whether a model can meet it is seen later."""
    if not 1 <= value <= 100:
        raise ValueError(f"a target speed-up is a number from 1 to the number of layers, not {value:g}")
    return value
