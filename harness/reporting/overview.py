"""The main figures of a results folder as plain text, for the terminal."""

from __future__ import annotations

from pathlib import Path

from .panels import Panel, panels
from .points import FLOOR, REFERENCE, Point, Value, load_points
from .words import FLAGGED, metric, number, panel_title, target_title


def overview(root: str | Path) -> str:
    """One block a task and model: each run's target, achieved speed-ups and main quality metric."""
    return "\n\n".join(_block(panel) for panel in panels(load_points(Path(root)))) or "no finished run"


def _block(panel: Panel) -> str:
    columns = ("speedup_layers", "speedup_wall", panel.main_metric)
    rows = [["method", "target", *(metric(name).title for name in columns)]]
    for point in sorted(panel.points, key=_order):
        rows.append([_name(point), target_title(point.target), *(_figure(point.get(c), c) for c in columns)])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  " + "  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
    flags = {point.get(c).flag: None for point in panel.points for c in columns if point.get(c).flag}
    return "\n".join([panel_title(panel.config), *lines, *(f"  {FLAGGED} {flag}" for flag in flags)])


def _figure(value: Value, name: str) -> str:
    return number(value.value, name) + (FLAGGED if value.flag else "")


def _order(point: Point) -> tuple:
    """The reference first, floors last, else by method and target."""
    rank = {REFERENCE: 0, FLOOR: 2}.get(point.method, 1)
    return rank, point.label or point.method, point.checkpoint, point.target or 0


def _name(point: Point) -> str:
    if point.method == FLOOR:
        return f"floor: {point.variant}"
    name = point.label or point.method
    return name if point.checkpoint == "own" else f"{name} ({point.checkpoint})"
