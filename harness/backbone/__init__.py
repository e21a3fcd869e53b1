"""A causal language model from `transformers`, opened up layer by layer.

`Backbone` is the model with its parts named; `gates` put a decision round each decoder layer; `PlanCache` keeps keys
and values when layers skip positions; `masked_forward` runs whole sequences under a plan.
"""

from .backbone import Backbone
from .cache import KeysWritten, MissingKV, PlanCache
from .families import SUPPORTED_FAMILIES, UnsupportedModel
from .gates import gates
from .masked import masked_forward

__all__ = [
    "SUPPORTED_FAMILIES",
    "Backbone",
    "KeysWritten",
    "MissingKV",
    "PlanCache",
    "UnsupportedModel",
    "gates",
    "masked_forward",
]
