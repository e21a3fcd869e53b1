"""Methods: the base classes of plug-ins; how one is made from parameters or a target, recorded and made again."""

from .method import (
    EarlyExit,
    LayerSchedule,
    Lengths,
    Method,
    Speculative,
    check_kv_policy,
    check_layers,
    check_temperature,
)

__all__ = [
    "EarlyExit",
    "LayerSchedule",
    "Lengths",
    "Method",
    "Speculative",
    "check_kv_policy",
    "check_layers",
    "check_temperature",
]
