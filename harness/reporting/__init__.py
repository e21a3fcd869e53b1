"""Tables, plots, claims and the HTML report of a results folder.

    build_report(root)    brings results.csv, tables/, plots/ and report.html up to date; returns the files
    is_current(root)      whether it would find nothing to do
    overview(root)        the main figures as plain text
    judge_claims(root)    the papers' claims, judged: a list of Judgement; claims_text(…) writes them for a terminal

Nothing is made anew while the inputs are the same. This room reads what `harness.results` wrote and never decodes.
Beyond the schema it uses, where they are there:

    scores.json   "loss_by_position": [mean loss at output position 1, 2, …], "tokens_by_position": [over how many]
                  "per_example": {metric: [value of each record, in the records' order]}, which the claims need
    records.jsonl "pieces": [text of each output token], which lets the report colour the text by layers; results
                  from before there were pieces get a strip of squares under the text
    a run whose method is named "floor"   a trivial output's scores, its variant naming which (lead-3, title, …)
"""

import importlib

from .build import build_report, is_current
from .overview import overview

__all__ = ["build_report", "claims_text", "is_current", "judge_claims", "overview"]


def __getattr__(name: str):
    """Claims need numpy; finding that a report is up to date does not."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(".claims.claims", __name__), name)
