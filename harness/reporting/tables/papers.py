"""Published figures, as the papers print them, laid beside ours. Nothing here was filled in from memory."""

from __future__ import annotations

import csv
from functools import cache
from pathlib import Path

from ..panels import Panel
from ..points import REFERENCE, Point
from ..words import guarantee_title

# Parameters of the methods as Unified's paper ran them; other values are other rules.
PAPER_FORMS = {
    "unified": {"selection": "official"},
    "skipdecode": {"mode": "skip", "decay": "linear", "schedule": "budget"},
}


@cache
def published(name: str) -> tuple[dict, ...]:
    """Rows of published/NAME.csv: figures copied from papers, numbers as floats, empty cells as None."""
    path = Path(__file__).parents[1] / "published" / f"{name}.csv"
    with path.open(encoding="utf-8", newline="") as file:
        return tuple({k: _parsed(v) for k, v in row.items()} for row in csv.DictReader(file))


def _parsed(text: str) -> object:
    try:
        return float(text) if text else None
    except ValueError:
        return text


def unified_figures(point: Point) -> dict | None:
    """Unified's published row: early exit stands for our dynamic one; its 5x beside our 5x or, with 12 layers, 6x."""
    if point.task.split(":")[0] != "translation":
        return None
    other_form = any(point.params.get(k, v) != v for k, v in PAPER_FORMS.get(point.method, {}).items())
    if other_form or point.checkpoint == "base":
        return None
    target = 1 if point.method == REFERENCE else {6: 5}.get(point.target, point.target)
    name = {"calm": "early_exit"}.get(point.method, point.method)
    rows = published("unified_layer_skipping")
    return next((r for r in rows if r["method"] == name and r["target_speedup"] == target), None)


def calm_rows(panel: Panel) -> list[dict]:
    base = panel.config["task"].split(":")[0]
    task = {"cnn_dm": "cnn_dm", "translation": "wmt"}.get(base)
    rows = [r for r in published("calm") if r["task"] == task]
    return [{"method": "calm (paper, T5, 8 layers)", "param:confidence": r["confidence"],
             "guarantee": guarantee_title(r), "layers_mean": r["avg_layers"],
             "speedup_wall@1": r["speedup"]} for r in rows]  # fmt: skip


def tgen_rows(panel: Panel) -> list[dict]:
    """The published E2E baseline, where the examples are the real ones."""
    if panel.config["task"] != "e2e" or panel.config.get("source") == "stand-in":
        return []
    row = published("e2e_tgen")[0]
    return [{"method": "TGen (published)", "e2e_bleu": row["bleu"] * 100, "e2e_nist": row["nist"],
             "e2e_rougeL": row["rouge_l"] * 100, "e2e_cider": row["cider"]}]  # fmt: skip


def adaskip_rows(panel: Panel) -> list[dict]:
    """AdaSkip's replication without fine-tuning, beside our runs of base checkpoints."""
    rows = [r for r in published("adaskip") if r["layers_skipped"]]
    return [{"method": f"{r['method']} (AdaSkip, {r['model']}, {r['layers_skipped']:g} layers skipped)",
             "speedup_wall": r["measured_speedup"], "paper:govreport_rougeL": r["govreport_rougeL"],
             "paper:multinews_rougeL": r["multinews_rougeL"]} for r in rows]  # fmt: skip
