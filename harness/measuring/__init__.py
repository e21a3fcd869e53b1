"""Measuring: timing groups, the cost model, memory, the environment record and `bench`.

Each public name is imported when first used, so that the environment record costs no import of torch.
"""

from __future__ import annotations

import importlib

_PUBLIC = {
    "Entry": "running",
    "EntryFailed": "running",
    "measure_group": "group",
    "environment": "machine",
    "ratio": "conditions",
    "same_conditions": "conditions",
    "weight_reads": "reads",
    "peak_memory": "memory",
    "run_bench": "bench",
}
__all__ = sorted(_PUBLIC)


def __getattr__(name: str):
    if name not in _PUBLIC:
        raise AttributeError(f"module 'harness.measuring' has no attribute {name!r}; its names: {', '.join(__all__)}")
    return getattr(importlib.import_module(f".{_PUBLIC[name]}", __name__), name)
