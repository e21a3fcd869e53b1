"""A causal language model from `transformers`, opened up layer by layer.

`Backbone` is the model with its parts named; `gates` put a decision round each decoder layer; `PlanCache` keeps keys
and values when layers skip positions; `masked_forward` runs whole sequences under a plan.

Each public name is imported when first used: model names can be checked without torch.
"""

from __future__ import annotations

import importlib

_PUBLIC = {
    "SUPPORTED_FAMILIES": "families",
    "Backbone": "backbone",
    "KeysWritten": "cache",
    "MissingKV": "cache",
    "PlanCache": "cache",
    "UnsupportedModel": "families",
    "gates": "gating",
    "masked_forward": "masked",
}
__all__ = sorted(_PUBLIC)


def __getattr__(name: str):
    if name not in _PUBLIC:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{_PUBLIC[name]}", __name__), name)
    globals()[name] = value
    return value
