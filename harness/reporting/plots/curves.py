"""Speed-quality curves: by layers and by the clock, with intervals, Pareto front, reference and floor."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ..panels import Panel
from ..points import REFERENCE, Point, Value
from ..words import metric, number
from .doubts import clock_value, dagger, doubts, tint
from .looks import Look
from .style import INK, QUIET, axes_legend, figure, footnote, heading, save

FRONT = "filled: on the Pareto front"
BOUND = "bound of its layers, heads and checks"
BOUND_NOTE = f"| {BOUND}: how fast these would be if nothing else took time"
BEYOND = "! right of its bound: an error of the clock or of the cost model, no gain"


def draw(panel: Panel, folder: Path, looks: dict[str, Look]) -> list[Path]:
    """The curves of one panel, as PNG and SVG; nothing where no point has a speed and a quality."""
    return _by_layers(panel, folder, looks) + _by_clock(panel, folder, looks)


def _by_layers(panel: Panel, folder: Path, looks: dict[str, Look]) -> list[Path]:
    name = panel.main_metric
    if not any(p.get("speedup_layers") and p.get(name) for p in panel.methods if p.method != REFERENCE):
        return []
    fig, axes = figure(width=4.6, height=3.4)
    _curves(axes[0][0], panel, name, _curves_of(panel, name, "speedup_layers", None), looks)
    axes[0][0].set_xlabel("achieved speed-up, layers (×)")
    axes[0][0].set_ylabel(metric(name).title)
    heading(fig, panel, "Quality against speed, counted in layers")
    axes_legend(fig, axes, FRONT)
    return save(fig, folder, f"{panel.slug}_speed-quality_layers")


def _by_clock(panel: Panel, folder: Path, looks: dict[str, Look]) -> list[Path]:
    name = panel.main_metric
    sizes = timed_batch_sizes(panel, "speedup_wall")
    if not sizes:
        return []
    columns = min(len(sizes), 2 if len(sizes) < 5 else 3)
    rows = -(-len(sizes) // columns)
    fig, axes = figure(rows, columns, width=4.6 if columns == 1 else 3.1, height=3.4 if rows == 1 else 2.5,
                       sharex=True, sharey=True)  # fmt: skip
    drawn = {size: _curves_of(panel, name, "speedup_wall", size) for size in sizes}
    for axis, (size, curves) in zip(axes.flat, drawn.items(), strict=False):
        _curves(axis, panel, name, curves, looks, size)
        axis.set_title(f"batch size {size}{dagger(x for spots in curves.values() for _, x, _ in spots)}")
    for axis in axes.flat[len(sizes) :]:
        axis.set_axis_off()
    for axis in axes[-1]:
        axis.set_xlabel("achieved speed-up, wall-clock (×)")
    for line in axes:
        line[0].set_ylabel(metric(name).title)
    footnote(fig, _clock_notes(drawn))
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


Spots = list[tuple[Point, Value, Value]]  # a curve's points with their speeds and qualities


def _clock_notes(drawn: dict[int, dict[str, Spots]]) -> list[str]:
    spots = [(p, x, size) for size, curves in drawn.items() for spots in curves.values() for p, x, _ in spots]
    bounds = [(x.value, p.get("speedup_bound", size).value) for p, x, size in spots]
    known = [(x, bound) for x, bound in bounds if bound is not None]
    lines = [BOUND_NOTE] * bool(known) + [BEYOND] * any(x > bound for x, bound in known)
    return doubts(x for _, x, _ in spots) + lines


def _curves(axis, panel: Panel, name: str, curves: dict[str, Spots], looks: dict[str, Look],
            batch_size: int | None = None) -> None:  # fmt: skip
    front = pareto([(x.value, y.value) for spots in curves.values() for _, x, y in spots])
    for label, spots in curves.items():
        if spots:
            _curve(axis, label, spots, front, looks[label])
    _reference(axis, panel, name)
    for label, spots in curves.items() if batch_size else ():
        _bounds(axis, spots, looks[label].color, batch_size)
    axis.margins(x=0.08, y=0.1)
    _floor(axis, panel, name)


def _curves_of(panel: Panel, name: str, speed: str, batch_size: int | None) -> dict[str, Spots]:
    """For each label the points that have a speed and a quality, by speed; those of the clock with their flags."""
    found = {}
    for label, points in panel.curves().items():
        spots = [(p, clock_value(p, speed, batch_size) if batch_size else p.get(speed), p.get(name)) for p in points]
        found[label] = sorted((s for s in spots if s[1] and s[2]), key=lambda s: s[1].value)
    return found


def pareto(spots: Sequence[tuple[float, float]]) -> set[tuple[float, float]]:
    """The (speed, quality) pairs that no other beats in one and equals or beats in the other."""
    return {
        (x, y) for x, y in spots if not any((a >= x and b > y) or (a > x and b >= y) for a, b in spots)
    }  # fmt: skip


def _curve(axis, label: str, spots: Spots, front: set, look: Look) -> None:
    """The line, and each point with its bars: hollow if off the front, pale (and what leads to it) if flagged."""
    doubtful = next((x for _, x, _ in spots if x.flag), Value())
    line = {**look.curve(), "color": tint(look.color, doubtful)}
    axis.plot([x.value for _, x, _ in spots], [y.value for _, _, y in spots], **line)
    axis.plot([], [], label=label, **look.curve())  # in the legend never pale
    for some in filter(None, ([s for s in spots if bool(s[1].flag) == flagged] for flagged in (False, True))):
        xs, ys = [x for _, x, _ in some], [y for *_, y in some]
        axis.errorbar(
            [x.value for x in xs], [y.value for y in ys], xerr=bars(xs), yerr=bars(ys), fmt="none",
            ecolor=tint(look.color, xs[0]), elinewidth=0.9,
        )  # fmt: skip
    for _, x, y in spots:
        colour = tint(look.color, x)
        fill = colour if (x.value, y.value) in front else "white"
        axis.plot([x.value], [y.value], look.marker, color=colour, markerfacecolor=fill, zorder=3)


def bars(values: Sequence[Value]) -> list[list[float]] | None:
    """Lengths of error bars below and above; a point without an interval gets none."""
    if not any(v.low is not None and v.high is not None for v in values):
        return None
    below = [0.0 if v.low is None else max(v.value - v.low, 0.0) for v in values]
    return [below, [0.0 if v.high is None else max(v.high - v.value, 0.0) for v in values]]


def _bounds(axis, spots: Spots, colour: str, batch_size: int) -> None:
    """The head-aware bound, tied to its point: how fast layers, heads and checks could be without any fixed cost."""
    bounds = [(x.value, p.get("speedup_bound", batch_size).value, y.value) for p, x, y in spots]
    known = [(x, bound, y) for x, bound, y in bounds if bound is not None]
    tick = {"marker": "|", "linestyle": "", "markersize": 11, "markeredgewidth": 1.6, "alpha": 0.55}
    for x, bound, y in known:
        axis.plot([x, bound], [y, y], ":", color=colour, linewidth=0.9, alpha=0.8, zorder=1)
        axis.plot([bound], [y], color=colour, **tick)
        if x > bound:
            axis.annotate("!", (x, y), (4, 4), textcoords="offset points", fontsize=9, fontweight="bold", color=INK)
    if known:
        axis.plot([], [], color=QUIET, label=BOUND, **tick)


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
