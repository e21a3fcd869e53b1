"""Quality of generated text: metrics, their confidence intervals, and paired tests between two methods.

`score` and `score_with_intervals` take metrics by name (`METRICS` says what each is). Every metric keeps sufficient
statistics per example, so a resample costs a matrix product and never scores a text again.
"""

import importlib

from .api import Score, score, score_with_intervals
from .names import METRICS, check_metrics
from .words import split_sentences

__all__ = [
    "METRICS",
    "Paired",
    "SeedScore",
    "Score",
    "check_metrics",
    "median_interval",
    "over_seeds",
    "paired_test",
    "score",
    "score_with_intervals",
    "split_sentences",
]
_LATE = {"Paired": "paired", "SeedScore": "paired", "over_seeds": "paired", "paired_test": "paired"}
_LATE["median_interval"] = "statistics"


def __getattr__(name: str):
    """Tests and resampling need numpy; importing this package does not."""
    if name not in _LATE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f".{_LATE[name]}", __name__), name)
