"""In which order things are timed, and when enough is enough."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..scoring.statistics import median_interval

FEWEST = 5  # rounds before an interval is believed: that of fewer is too narrow


def round_order(count: int, number: int) -> list[int]:
    """Order of `count` entries in round `number` (from 0).

    Over `count` rounds each entry stands once at each place. The order is a zigzag (Williams' Latin square), so that
    over twice as many rounds each also follows each other one equally often.
    """
    zigzag = [(i + 1) // 2 if i % 2 else (count - i // 2) % count for i in range(count)]
    order = [(place + number) % count for place in zigzag]
    return order[::-1] if count % 2 and number // count % 2 else order


def value(samples: Sequence[float]) -> dict:
    """Median over rounds with its 95 % interval; no interval for one round, no value for none."""
    if not len(samples):
        return {"value": None, "low": None, "high": None}
    low, high = median_interval(samples) or (None, None)
    return {"value": float(np.median(samples)), "low": low, "high": high}


def narrow(samples: Sequence[float], width: float) -> bool:
    """Whether the interval of these rounds is at most `width` of their median."""
    if len(samples) < FEWEST:
        return False
    found = value(samples)
    return found["high"] - found["low"] <= width * abs(found["value"])
