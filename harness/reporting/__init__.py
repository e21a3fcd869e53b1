"""Tables, plots, claims and the HTML report of a results folder.

    build_report(root)            brings results.csv, tables/, plots/ and report.html up to date; returns the files

Nothing is made anew while the inputs are the same. This room reads what `harness.results` wrote and never decodes.
Beyond the schema it uses, where they are there:

    scores.json   "loss_by_position": [mean loss at output position 1, 2, …]
                  "per_example": {metric: [value of each record, in the records' order]}, which the claims need
    a run whose method is named "floor"   a trivial output's scores, its variant naming which (lead-3, title, …)
"""

from .build import build_report

__all__ = ["build_report"]
