"""Ratios between timings, formed only where the timings were made alike."""

from __future__ import annotations

from collections.abc import Mapping

from ..errors import SkipbenchError

CONDITIONS = ("dtype", "attention", "batch_size", "threads", "device", "decoding")


def same_conditions(a: Mapping, b: Mapping) -> bool:
    """Whether two records agree in dtype, attention, batch size, threads, device and decoding; silence is no yes."""
    return not _differences(a, b)


def ratio(a: Mapping, b: Mapping, name: str = "decode_ms_per_token") -> float:
    """`a`'s value over `b`'s: with the baseline as `a` and a time as `name`, the speed-up of `b`.

    Records carry the six conditions and `values`, as the entries of a timing group do. Raises SkipbenchError for
    records made under different conditions and for values that are missing or 0.
    """
    differences = _differences(a, b)
    if differences:
        raise SkipbenchError(f"no ratio between timings that differ in {'; '.join(differences)}; time them alike")
    top, bottom = (_number(record, name) for record in (a, b))
    if not top or not bottom:
        raise SkipbenchError(f"no ratio of {name} between {top!r} and {bottom!r}; both must have been measured")
    return top / bottom


def _number(record: Mapping, name: str) -> float | None:
    entry = record["values"].get(name)
    return entry["value"] if isinstance(entry, Mapping) else entry


def _differences(a: Mapping, b: Mapping) -> list[str]:
    pairs = {name: (a.get(name), b.get(name)) for name in CONDITIONS}
    return [
        f"{name} ({left if left is not None else 'not recorded'}, {right if right is not None else 'not recorded'})"
        for name, (left, right) in pairs.items()
        if left != right or left is None
    ]
