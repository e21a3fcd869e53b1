"""Quality of generated text: metrics, their confidence intervals, and paired tests between two methods.

`score` and `score_with_intervals` take metrics by name (`METRICS` says what each is). Every metric keeps sufficient
statistics per example, so a resample costs a matrix product and never scores a text again.
"""

from .api import Score, score, score_with_intervals
from .names import METRICS, check_metrics

__all__ = ["METRICS", "Score", "check_metrics", "score", "score_with_intervals"]
