"""What a picture must say about figures of the clock: which are flagged, and which come from a single round."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ..points import Point, Value
from ..words import FLAGGED, merged_flags
from .style import pale

ONE_ROUND = "no bar along the clock's axis: one round, so no interval; may be far off"


def clock_value(point: Point, name: str, batch_size: int | None) -> Value:
    """A figure of the clock; one computed from it, such as the overhead, is as doubtful as the time per token."""
    value = point.get(name, batch_size)
    flag = value.flag or point.get("decode_ms_per_token", batch_size).flag
    return replace(value, flag=flag) if value else value


def tint(colour: str, value: Value):
    """The colour to draw a value in: a flagged one is pale."""
    return pale(colour) if value.flag else colour


def dagger(values: Iterable[Value]) -> str:
    """A mark for a title or label if any of the values is flagged."""
    return f" {FLAGGED}" if any(value.flag for value in values) else ""


def doubts(values: Iterable[Value]) -> list[str]:
    """Lines for the foot of a picture of these figures of the clock; none if nothing is to be said."""
    known = [value for value in values if value]
    flags = merged_flags(value.flag for value in known if value.flag)
    lines = [f"{FLAGGED} pale: may be far off; {flag}" for flag in flags]
    return lines + [ONE_ROUND] * any(None in (value.low, value.high) and not value.seeds for value in known)
