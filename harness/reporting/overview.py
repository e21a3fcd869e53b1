"""The main figures of a results folder as plain text, for the terminal."""

from __future__ import annotations

from pathlib import Path

from .panels import Panel, panels
from .points import FLOOR, REFERENCE, Point, Value, load_points
from .words import FLAGGED, merged_flags, metric, number, panel_title, target_title


def overview(root: str | Path) -> str:
    """One block a task and model: each run's target, achieved speed-ups and main quality metric."""
    return "\n\n".join(_block(panel) for panel in panels(load_points(Path(root)))) or "no finished run"


def _block(panel: Panel) -> str:
    size = min((t.batch_size for p in panel.methods for t in p.timings if t.values.get("speedup_wall")), default=None)
    columns = {"speedup_layers": None, "speedup_wall": size, panel.main_metric: None}  # and at which batch size
    titles = [metric(name).title + (f", batch {size}" if size else "") for name, size in columns.items()]
    rows, flags = [["method", "target", *titles]], []
    for point in sorted(panel.points, key=_order):
        values = {name: point.get(name, size) for name, size in columns.items()}
        rows.append([_name(point), target_title(point.target), *(_figure(v, name) for name, v in values.items())])
        flags += [value.flag for value in values.values() if value.flag]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  " + "  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
    notes = [f"  {FLAGGED} {flag}" for flag in merged_flags(flags)] + [f"  ! {text}" for text in _below_floor(panel)]
    return "\n".join([panel_title(panel.config), *lines, *notes])


def _below_floor(panel: Panel) -> list[str]:
    from .claims.comparisons import below_floor  # with numpy, which finding that a report is up to date does without

    full, known = panel.reference(), panel.floor(panel.main_metric)
    reason = below_floor(panel) if known and full and full.get(panel.main_metric) else None
    return [f"{reason}: no method's quality here says much"] if reason else []


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
