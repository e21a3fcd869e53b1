"""The papers' claims judged from a results folder.

Only like with like: one panel (task, split, source, n, model, training, dtype, device, attention, decoding), one
kind of checkpoint on both sides, speeds within 3 % or interpolated along the curve, never where `full` does not beat
the floor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...results.reading import check_folder
from ..panels import Panel, panels
from ..points import Point, load_points
from ..tables.table import Cell, Column, Table
from ..words import MISSING, panel_title, target_title, task_title
from . import comparisons
from .claim_list import CLAIMS, Claim
from .judging import UNJUDGED, Evidence, Verdict, verdicts


@dataclass(frozen=True)
class Judgement:
    """One claim on one panel and target: the evidence, if there was any, and the verdict with its reason.

    `label` names the curve of the claim's left side.
    """

    claim: Claim
    panel: Panel
    target: float | None
    evidence: Evidence | None
    verdict: Verdict
    label: str

    def __str__(self) -> str:
        where = f"{task_title(self.panel.config['task'])}, {target_title(self.target)}"
        where += "" if self.label == self.claim.left else f", {self.label}"
        return f"{self.verdict.verdict}: {self.claim.text} ({where}): {_shown(self)}; {self.verdict.reason}"


def judge_claims(root: str | Path, claims: Sequence[Claim] = CLAIMS) -> list[Judgement]:
    """Every claim that the folder's runs touch, judged with Holm's correction over all that could be tested."""
    return judge_panels(panels(load_points(check_folder(root, ("runs", "timing")))), claims)


def judge_panels(groups: Sequence[Panel], claims: Sequence[Claim] = CLAIMS) -> list[Judgement]:
    """See `judge_claims`."""
    found = [(claim, *case) for claim in claims for panel in groups for case in _cases(claim, panel, groups)]
    decided = iter(verdicts([outcome for *_, outcome in found if isinstance(outcome, Evidence)]))
    judgements = []
    for claim, panel, point, outcome in found:
        if isinstance(outcome, Evidence):
            judgements.append(Judgement(claim, panel, point.target, outcome, next(decided), point.label))
        else:
            verdict = Verdict(UNJUDGED, None, outcome)
            judgements.append(Judgement(claim, panel, point.target, None, verdict, point.label))
    return judgements


def _cases(claim: Claim, panel: Panel, groups: Sequence[Panel]) -> Iterator[tuple[Panel, Point, object]]:
    """(panel, point, evidence or the reason why there is none) for every point of the claim's left side."""
    if claim.tasks and panel.config["task"].split(":")[0] not in claim.tasks:
        return
    compare: Callable = getattr(comparisons, claim.kind)
    points = [p for p in panel.methods if p.method == claim.left and p.checkpoint == claim.checkpoint]
    meant = [p for p in points if all(p.params.get(name) == value for name, value in claim.form)]
    if points and not meant:
        form = ", ".join(f"{name}={value}" for name, value in claim.form)
        yield panel, points[0], f"not tested: the claim is about {claim.left} with {form}"
    touched = comparisons.TOUCHED.get(claim.kind, lambda panel, point: True)
    for point in (p for p in meant if touched(panel, p)):
        yield panel, point, comparisons.below_floor(panel, claim.checkpoint) or compare(claim, panel, point, groups)


def claims_table(judgements: Sequence[Judgement]) -> Table:
    """The verdicts as a table."""
    heads = ("verdict", "claim", "task", "method", "target", "difference", "must exceed", "p (Holm)", "why", "model",
             "data", "source of the claim")  # fmt: skip
    rows = [_row(judgement) for judgement in judgements]
    keys = [
        {"task": task_title(j.panel.config["task"]), "method": j.claim.left, "model": j.panel.config["model"]["name"]}
        for j in judgements
    ]
    return Table("claims", "The papers' claims, judged here", [Column(h) for h in heads], rows, NOTE, keys)


NOTE = (
    "Difference: left minus right with its 95 % interval. Supported or refuted: beyond or short of the margin, "
    "two-sided, all verdicts together wrong with probability at most 5 % (Holm). With several seeds all must agree. "
    "“Mean sentence BLEU” and its like: the mean of the scores of single outputs, which is not the score of the corpus "
    "that the other tables print; only single outputs can be paired, and only their scores are recorded."
)


def _row(judgement: Judgement) -> list[Cell]:
    config, verdict = judgement.panel.config, judgement.verdict
    model = config["model"]["name"]
    what = "examples" if judgement.evidence and judgement.evidence.n else "times as many rounds"
    needed = f"; about {verdict.needed:,} {what} would decide" if verdict.needed else ""
    p_value = MISSING if verdict.p is None else f"{verdict.p:.2g}"
    task, target = task_title(config["task"]), target_title(judgement.target)
    texts = [verdict.verdict, judgement.claim.text, task, judgement.label, target, _shown(judgement),
             _margin(judgement.evidence), p_value, verdict.reason + needed, model, str(config.get("source")),
             judgement.claim.source]  # fmt: skip
    return [Cell(text) for text in texts]


def _shown(judgement: Judgement) -> str:
    item = judgement.evidence
    if item is None:
        return MISSING
    return f"{item.estimate:+.3g} [{item.low:+.3g}, {item.high:+.3g}] {item.unit}".strip()


def _margin(item: Evidence | None) -> str:
    return MISSING if item is None else f"{item.margin:+.3g} {item.unit}".strip()


def claims_text(judgements: Sequence[Judgement]) -> str:
    """The verdicts for a terminal: one line each, grouped by panel."""
    lines: list[str] = []
    for title in dict.fromkeys(panel_title(j.panel.config) for j in judgements):
        lines.append(title)
        lines += [f"  {j}" for j in judgements if panel_title(j.panel.config) == title]
    return "\n".join(lines) or "no claim is touched by these results"
