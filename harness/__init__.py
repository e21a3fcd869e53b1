"""skipbench's public names. Each is imported when first used, so that `import harness` costs next to nothing."""

from __future__ import annotations

import importlib

_PUBLIC = {
    "Backbone": "backbone",
    "LayerSchedule": "method",
    "Lengths": "method",
    "MissingKV": "backbone",
    "EarlyExit": "method",
    "UsageError": "errors",
    "Speculative": "method",
    "load_method": "method.parameters",
    "register_method": "registry",
    "register_task": "registry",
    "Task": "task",
    "Example": "task",
    "load_task": "task",
    "decode": "decoding",
    "score": "scoring",
    "validate_method": "validate",
    "run_suite": "executors",
    "read_results": "results",
}
__all__ = sorted(_PUBLIC)


def __getattr__(name: str):
    if name not in _PUBLIC:
        raise AttributeError(f"module 'harness' has no attribute {name!r}; its public names: {', '.join(__all__)}")
    value = getattr(importlib.import_module(f".{_PUBLIC[name]}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
