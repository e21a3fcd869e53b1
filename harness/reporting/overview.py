"""The main figures of a results folder as plain text, for the terminal."""

from __future__ import annotations

from pathlib import Path

from .points import Point, load_points
from .words import metric, number, panel_title


def overview(root: str | Path) -> str:
    """One block a task and model: each run's target, achieved speed-ups and main quality metric."""
    groups: dict[str, list[Point]] = {}
    for point in load_points(Path(root)):
        groups.setdefault(panel_title(point.config), []).append(point)
    return "\n\n".join(_block(title, points) for title, points in groups.items()) or "no finished run"


def _block(title: str, points: list[Point]) -> str:
    main = next((name for point in points for name in point.metrics), None)
    columns = ["speedup_layers", "speedup_wall", *([main] if main else [])]
    rows = [["method", "checkpoint", "target", *(metric(name).title for name in columns)]]
    for point in points:
        target = f"{point.target:g}x" if point.target is not None else "–"
        rows.append([point.method, point.checkpoint, target, *(_cell(point, name) for name in columns)])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join([title, *("  " + "  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)])


def _cell(point: Point, name: str) -> str:
    return number(point.get(name).value, name)
