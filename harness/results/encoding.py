"""One JSON encoder for everything on disk: strict, ASCII only, one record exactly one line.

ASCII output keeps U+2028, U+0085, NUL and lone surrogates inside a line whatever reads the file. (Two surrogate
halves that stand next to each other come back as the one character they spell.)
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from pathlib import PurePath


def plain(value: object) -> object:
    """`value` as JSON types: numpy and torch scalars become numbers, arrays lists, NaN and infinities None.

    Raises TypeError for anything else, naming its type.
    """
    if value is None or isinstance(value, (str, bool)):
        return str(value) if isinstance(value, str) else value
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {_key(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, range)):
        return [plain(item) for item in value]
    if isinstance(value, PurePath):
        return str(value)
    return _from_array(value)


def _from_array(value: object) -> object:
    if hasattr(value, "tolist"):  # numpy and torch, scalars and arrays alike; neither needs importing here
        return plain(value.tolist())
    raise TypeError(f"a {type(value).__name__} cannot be written as JSON: {value!r:.80}")


def _key(key: object) -> str:
    key = key.item() if getattr(key, "shape", None) == () else key  # a number of numpy's or torch's
    if isinstance(key, (str, int)) and not isinstance(key, bool):
        return str(key)
    raise TypeError(f"a JSON object's keys are strings, not {key!r}")


def dumps(value: object, indent: int | None = None, sort_keys: bool = False) -> str:
    """Strict JSON text of `value`; without `indent` it is exactly one line."""
    return json.dumps(plain(value), allow_nan=False, indent=indent, sort_keys=sort_keys)


def loads(text: str | bytes) -> object:
    """Strict JSON: NaN and Infinity are refused, and what is nested too deep. Raises ValueError."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def digest(value: object) -> str:
    """SHA-256 of a JSON value, whatever the order of its keys."""
    return _digest(plain(value))


def _digest(value: object) -> str:
    return hashlib.sha256(json.dumps(value, allow_nan=False, sort_keys=True).encode()).hexdigest()


def seal(document: Mapping) -> dict:
    """`document` with a `sha256` of everything else in it, so that a later change can be found."""
    body = plain(_body(document))
    return {**body, "sha256": _digest(body)}


def is_sealed(document: Mapping) -> bool:
    """Whether a sealed document, as read from its file, is as it was written."""
    try:
        return _digest(_body(document)) == document.get("sha256")
    except (ValueError, RecursionError):  # 1e999, or nested too deep: nothing that `seal` lets through
        return False


def _body(document: Mapping) -> dict:
    return {key: value for key, value in document.items() if key != "sha256"}
