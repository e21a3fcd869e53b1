"""Comparison at equal achieved speed: within 3 % as run, else interpolated along the curve, never beyond it."""

from __future__ import annotations

from collections.abc import Sequence

from ..panels import Panel
from ..points import Point, Value
from ..words import MISSING, metric, panel_title, target_title, task_title
from .table import Cell, Column, Table, mark_best

NEAR = 0.03  # achieved speed-ups this close count as equal
COMPARED = ("multi_layer", "calm", "skipdecode", "unified")


def at_speed(points: Sequence[Point], speed: float, name: str = "speedup_layers") -> list[tuple[Point, float]] | None:
    """The points, and their weights, that stand for a curve at an achieved speed-up.

    One point of weight 1 if its speed lies within 3 %, else the two neighbours of a linear interpolation; None if the
    speed lies outside the curve.
    """
    spots = sorted(((p.get(name).value, p) for p in points if p.get(name)), key=lambda s: s[0])
    near = min(spots, key=lambda s: abs(s[0] - speed), default=None)
    if near and abs(near[0] - speed) <= NEAR * speed:
        return [(near[1], 1.0)]
    for (low, a), (high, b) in zip(spots, spots[1:], strict=False):
        if low < speed < high:
            weight = (speed - low) / (high - low)
            return [(a, 1 - weight), (b, weight)]
    return None


def interpolated(parts: Sequence[tuple[Point, float]], name: str) -> Value:
    """A metric along the curve: one point's own, or the weighted mean of value and bounds of two."""
    if len(parts) == 1:
        return parts[0][0].get(name)
    values = [(p.get(name), w) for p, w in parts]

    def mean(which: str) -> float | None:
        numbers = [(getattr(v, which), w) for v, w in values]
        return None if any(n is None for n, _ in numbers) else sum(n * w for n, w in numbers)

    return Value(mean("value"), mean("low"), mean("high"))


def equal_speed_tables(groups: Sequence[Panel]) -> list[Table]:
    """SkipDecode's comparison: each method at the layer speed-up that `skipdecode` achieved, for every task."""
    return [t for panel in groups if (t := _table(panel)) is not None]


def _table(panel: Panel) -> Table | None:
    curves = panel.curves()
    names = panel.config.get("metrics") or []
    quality = [*names, "token_accuracy"]
    rows, groups, keys = [], [], []
    for point in (p for p in curves.get("skipdecode", []) if p.get("speedup_layers")):
        speed = point.get("speedup_layers").value
        for label, points in curves.items():
            if points[0].method in COMPARED and points[0].checkpoint == point.checkpoint:
                rows.append(_row(point, label, points, speed, quality))
                groups.append(point.target)
                keys.append({"task": task_title(point.task), "method": points[0].method, "model": point.model})
    if len(rows) < 2:
        return None
    columns = [Column("speed-up to match"), Column("method"), Column("how"), *_columns(quality)]
    return Table(
        f"{panel.slug}_equal-speed", f"Methods at SkipDecode's achieved layer speed-up. {panel_title(panel.config)}",
        columns, mark_best(rows, groups),
        "“as run”: an achieved speed-up within 3 %; “between”: interpolated along the method's curve; a dash: the "
        "speed lies outside the curve, and nothing is extrapolated. The paper prints one “accuracy” a task without "
        "defining it; token accuracy (teacher-forced, under the plan) is the nearest here.", keys,
    )  # fmt: skip


def _columns(quality: Sequence[str]) -> list[Column]:
    return [Column(metric(name).title, name) for name in quality]


def _row(point: Point, label: str, points: Sequence[Point], speed: float, quality: Sequence[str]) -> list[Cell]:
    parts = at_speed(points, speed)
    how = MISSING if parts is None else "as run" if len(parts) == 1 else "between"
    asked = f"{speed:.2f}x (target {target_title(point.target)})"
    values = [Value() if parts is None else interpolated(parts, name) for name in quality]
    cells = [Cell(value=v, name=n) for v, n in zip(values, quality, strict=True)]
    return [Cell(asked), Cell(label), Cell(how), *cells]
