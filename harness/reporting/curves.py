"""Speed-quality curves: by layers and by the clock, with intervals, Pareto front, reference and floor."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from .panels import Panel
from .points import REFERENCE, Point, Value
from .style import INK, QUIET, axes_legend, figure, heading, look, save
from .words import metric, number

FRONT = "filled: on the Pareto front"


def draw(panel: Panel, folder: Path) -> list[Path]:
    """The curves of one panel, as PNG and SVG; nothing where no point has a speed and a quality."""
    return _by_layers(panel, folder) + _by_clock(panel, folder)


def _by_layers(panel: Panel, folder: Path) -> list[Path]:
    name = panel.main_metric
    if not any(p.get("speedup_layers") and p.get(name) for p in panel.methods if p.method != REFERENCE):
        return []
    fig, axes = figure(width=4.6, height=3.4)
    _curves(axes[0][0], panel, name, "speedup_layers", None)
    axes[0][0].set_xlabel("achieved speed-up, layers (×)")
    axes[0][0].set_ylabel(metric(name).title)
    heading(fig, panel, "Quality against speed, counted in layers")
    axes_legend(fig, axes, FRONT)
    return save(fig, folder, f"{panel.slug}_speed-quality_layers")


def _by_clock(panel: Panel, folder: Path) -> list[Path]:
    name = panel.main_metric
    sizes = timed_batch_sizes(panel, "speedup_wall")
    if not sizes:
        return []
    columns = min(len(sizes), 2 if len(sizes) < 5 else 3)
    rows = -(-len(sizes) // columns)
    fig, axes = figure(rows, columns, width=4.6 if columns == 1 else 3.1, height=3.4 if rows == 1 else 2.5,
                       sharex=True, sharey=True)  # fmt: skip
    for axis, size in zip(axes.flat, sizes, strict=False):
        _curves(axis, panel, name, "speedup_wall", size)
        axis.set_title(f"batch size {size}")
    for axis in axes.flat[len(sizes) :]:
        axis.set_axis_off()
    for axis in axes[-1]:
        axis.set_xlabel("achieved speed-up, wall-clock (×)")
    for line in axes:
        line[0].set_ylabel(metric(name).title)
    heading(fig, panel, f"Quality against speed on the clock, {_setting(panel)}")
    axes_legend(fig, axes, FRONT)
    return save(fig, folder, f"{panel.slug}_speed-quality_wall")


def timed_batch_sizes(panel: Panel, name: str) -> list[int]:
    """Batch sizes at which some method was timed, ascending."""
    return sorted({t.batch_size for p in panel.methods for t in p.timings if t.values.get(name)})


def _setting(panel: Panel) -> str:
    timing = next(t for p in panel.methods for t in p.timings)
    parts = [timing.setting.get("device"), timing.setting.get("dtype")]
    threads = timing.setting.get("threads")
    return ", ".join([str(p) for p in parts if p] + ([f"{threads} thread{'s' * (threads > 1)}"] if threads else []))


def _curves(axis, panel: Panel, name: str, speed: str, batch_size: int | None) -> None:
    curves = {k: _placed(v, name, speed, batch_size) for k, v in panel.curves().items()}
    labels = list(panel.curves())
    front = pareto([(x.value, y.value) for spots in curves.values() for _, x, y in spots])
    for label, spots in curves.items():
        if spots:
            _curve(axis, label, spots, front, look(label, labels))
    _reference(axis, panel, name)
    for label, spots in curves.items() if batch_size else ():
        _bounds(axis, spots, look(label, labels)["color"], batch_size)
    axis.margins(x=0.08, y=0.1)
    _floor(axis, panel, name)


def _placed(points: Sequence[Point], name: str, speed: str, batch_size: int | None) -> list[tuple[Point, Value, Value]]:
    spots = [(p, p.get(speed, batch_size), p.get(name)) for p in points]
    return sorted((s for s in spots if s[1] and s[2]), key=lambda s: s[1].value)


def pareto(spots: Sequence[tuple[float, float]]) -> set[tuple[float, float]]:
    """The (speed, quality) pairs that no other beats in one and equals or beats in the other."""
    return {
        (x, y) for x, y in spots if not any((a >= x and b > y) or (a > x and b >= y) for a, b in spots)
    }  # fmt: skip


def _curve(axis, label: str, spots: list, front: set, style: dict) -> None:
    xs, ys = [x.value for _, x, _ in spots], [y.value for _, _, y in spots]
    axis.errorbar(
        xs, ys, xerr=bars([x for _, x, _ in spots]), yerr=bars([y for _, _, y in spots]), fmt="none",
        ecolor=style["color"], elinewidth=0.9, alpha=0.8,
    )  # fmt: skip
    filled = [style["color"] if (x, y) in front else "white" for x, y in zip(xs, ys, strict=True)]
    axis.plot(xs, ys, label=label, **style)
    for x, y, fill in zip(xs, ys, filled, strict=True):
        axis.plot([x], [y], style["marker"], color=style["color"], markerfacecolor=fill, zorder=3)


def bars(values: Sequence[Value]) -> list[list[float]] | None:
    """Lengths of error bars below and above; a point without an interval gets none."""
    if not any(v.low is not None and v.high is not None for v in values):
        return None
    below = [0.0 if v.low is None else max(v.value - v.low, 0.0) for v in values]
    return [below, [0.0 if v.high is None else max(v.high - v.value, 0.0) for v in values]]


def _bounds(axis, spots: list, colour: str, batch_size: int) -> None:
    """The head-aware bound: how fast these layers and heads could be if nothing else took time."""
    bounds = [(p.get("speedup_bound", batch_size).value, y.value) for p, _, y in spots]
    known = [(x, y) for x, y in bounds if x is not None]
    if known:
        axis.plot(*zip(*known, strict=True), "|", color=colour, markersize=11, markeredgewidth=1.6, alpha=0.55)
        axis.plot([], [], "|", color=QUIET, markersize=11, markeredgewidth=1.6, label="bound of its layers and heads")


def _reference(axis, panel: Panel, name: str) -> None:
    full = panel.reference()
    quality = full.get(name) if full else Value()
    if quality:
        axis.axhline(quality.value, color=INK, linewidth=0.8, linestyle=":", zorder=1)
        axis.errorbar([1.0], [quality.value], yerr=bars([quality]), fmt="*", color=INK, markersize=11,
                      elinewidth=0.9, label="full (reference)")  # fmt: skip


def _floor(axis, panel: Panel, name: str) -> None:
    """The best trivial output, as a line; in words if it lies so far below that it would flatten the curves."""
    floor = panel.floor(name)
    if not floor:
        return
    low, high = axis.get_ylim()
    if floor[0] >= low - (high - low):
        axis.axhline(floor[0], color=QUIET, linestyle="--", linewidth=1.1, label=f"floor: {floor[1]}")
    else:
        text = f"↓ floor: {floor[1]}, {number(floor[0], name)}"
        axis.text(0.02, 0.02, text, transform=axis.transAxes, color=QUIET, fontsize=7.5)
