"""What skipping really costs and saves: target against achieved, batch size, overhead, KV memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from matplotlib.ticker import LogLocator

from ..panels import Panel
from ..points import REFERENCE, Point, Value
from ..words import metric, target_title
from .curves import bars, timed_batch_sizes
from .doubts import clock_value, dagger, doubts, tint
from .looks import Look
from .style import INK, QUIET, figure, finish, footnote, heading, save

LOWEST = "each method at its lowest target"
ROWS = "Which rows are timed depends on the batch size, so what a row needs does too; single lines: as many as it runs."


def draw(panel: Panel, folder: Path, looks: dict[str, Look]) -> list[Path]:
    """Every cost picture for which the panel has numbers."""
    drawers = (_achieved, _batch, _throughput, _overhead, _kv)
    return [path for drawer in drawers for path in drawer(panel, folder, looks)]


def _achieved(panel: Panel, folder: Path, looks: dict[str, Look]) -> list[Path]:
    """Achieved against target speed-up, by layers and by the clock."""
    curves = {k: [p for p in v if p.target] for k, v in panel.curves().items()}
    if not any(p.get("speedup_layers") for v in curves.values() for p in v):
        return []
    sizes = timed_batch_sizes(panel, "speedup_wall")[:1]
    fig, axes = figure(1, 1 + len(sizes), width=3.3, height=3.1, sharey=True)
    top = max(p.target for v in curves.values() for p in v)
    for axis in axes[0]:
        axis.plot([1, top], [1, top], ":", color=INK, linewidth=0.9, label="as asked")
        axis.set_xlabel("target speed-up (×)")
    for label, points in curves.items():
        _line(axes[0][0], [(p.target, p.get("speedup_layers")) for p in points], label, looks[label])
    axes[0][0].set_title("by layers")
    clock = {k: [(p.target, clock_value(p, "speedup_wall", s)) for p in v] for s in sizes for k, v in curves.items()}
    for label, spots in clock.items():
        _line(axes[0][1], spots, label, looks[label])
    timed = [value for spots in clock.values() for _, value in spots]
    if sizes:
        axes[0][1].set_title(f"by the clock, batch size {sizes[0]}{dagger(timed)}")
    axes[0][0].set_ylabel("achieved speed-up (×)")
    return finish(fig, axes, panel, folder, "Achieved against target speed-up", "achieved", doubts(timed))


def _line(axis, spots: Sequence[tuple[float, Value]], label: str, look: Look) -> None:
    """A curve with bars; a flagged point and its bar are pale, and so is the line from the first of them on."""
    spots = sorted(((x, y) for x, y in spots if y), key=lambda s: s[0])
    if not spots:
        return
    doubtful = next((y for _, y in spots if y.flag), Value())
    line = {**look.curve(), "color": tint(look.color, doubtful)}
    axis.plot([x for x, _ in spots], [y.value for _, y in spots], label=label, **line)
    for some in filter(None, ([s for s in spots if bool(s[1].flag) == flagged] for flagged in (False, True))):
        xs, ys = [x for x, _ in some], [y for _, y in some]
        axis.errorbar(
            xs, [y.value for y in ys], yerr=bars(ys), fmt=look.marker, color=tint(look.color, ys[0]), elinewidth=0.9
        )


def by_batch(point: Point, name: str) -> list[tuple[int, Value]]:
    """(batch size, value) of a metric over all timings of a point, ascending."""
    return sorted(((t.batch_size, t.values[name]) for t in point.timings if t.values.get(name)), key=lambda s: s[0])


def _chosen(panel: Panel, name: str, batches: int = 2) -> dict[str, Point]:
    """One point a curve, at its lowest target, where `name` was timed at enough batch sizes."""
    curves = {k: [p for p in v if len(by_batch(p, name)) >= batches] for k, v in panel.curves().items()}
    return {k: min(v, key=lambda p: p.target or 0) for k, v in curves.items() if v}


def _batch(panel: Panel, folder: Path, looks: dict[str, Look]) -> list[Path]:
    """Layers a row needed and layers the batch ran, by batch size."""
    chosen = _chosen(panel, "speedup_layers_batch")
    if not chosen:
        return []
    fig, axes = figure(width=4.2, height=3.1)
    axis = axes[0][0]
    for place, (label, point) in enumerate(chosen.items()):
        aside = 2 ** (0.06 * (place - (len(chosen) - 1) / 2))  # equal lines would hide each other
        ran, needed = (_layers_by_batch(point, name) for name in ("speedup_layers_batch", "speedup_layers"))
        axis.plot([b * aside for b in ran], ran.values(), label=_at(label, point), **looks[label].curve())
        if needed != ran:
            style = {**looks[label].curve(), "linestyle": ":", "markerfacecolor": "white"}
            axis.plot([b * aside for b in needed], needed.values(), **style)
    axis.plot([], [], "-o", color=QUIET, label="run by the batch")
    axis.plot([], [], ":o", color=QUIET, markerfacecolor="white", label="needed by a row, if fewer")
    _batch_axis(axis, [b for p in chosen.values() for b, _ in by_batch(p, "speedup_layers_batch")])
    axis.set_ylabel("mean layers a decode step")
    axis.axhline(next(iter(chosen.values())).num_layers, color=INK, linestyle="--", linewidth=0.9, label="full")
    axis.set_ylim(bottom=0)
    return finish(fig, axes, panel, folder, f"Layers needed by a row and run by its batch, {LOWEST}", "batch", [ROWS])


def _layers_by_batch(point: Point, name: str) -> dict[int, float]:
    return {size: point.num_layers / value.value for size, value in by_batch(point, name)}


def _at(label: str, point: Point) -> str:
    return f"{label} {target_title(point.target)}" if point.target else label


def _batch_axis(axis, sizes: Sequence[int]) -> None:
    axis.set_xscale("log", base=2)
    axis.set_xticks(sorted(set(sizes)), [str(s) for s in sorted(set(sizes))])
    axis.minorticks_off()
    axis.set_xlabel("batch size (rows)")


def _throughput(panel: Panel, folder: Path, looks: dict[str, Look]) -> list[Path]:
    """Decoded tokens per second by batch size."""
    chosen = _chosen(panel, "tokens_per_s")
    full = panel.reference()
    if not chosen:
        return []
    fig, axes = figure(width=4.2, height=3.1)
    drawn = [(_at(label, point), looks[label], by_batch(point, "tokens_per_s")) for label, point in chosen.items()]
    if full and by_batch(full, "tokens_per_s"):
        drawn.append((REFERENCE, Look(INK, "*", ":", ""), by_batch(full, "tokens_per_s")))
    for label, look, spots in drawn:
        _line(axes[0][0], spots, label + dagger(value for _, value in spots), look)
    _batch_axis(axes[0][0], [b for _, _, spots in drawn for b, _ in spots])
    axes[0][0].set_ylabel("decoded tokens per second")
    axes[0][0].set_yscale("log")
    axes[0][0].yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes[0][0].yaxis.set_major_formatter("{x:g}")
    axes[0][0].yaxis.set_minor_formatter("")
    notes = doubts(value for _, _, spots in drawn for _, value in spots)
    return finish(fig, axes, panel, folder, f"Throughput by batch size, {LOWEST}", "throughput", notes)


def _overhead(panel: Panel, folder: Path, looks: dict[str, Look]) -> list[Path]:
    names, title = ("overhead_ms",), "Wall time that layers and heads do not explain"
    return _bars(panel, folder, looks, names, "overhead", title, clock_value)


def _kv(panel: Panel, folder: Path, looks: dict[str, Look]) -> list[Path]:
    return _bars(panel, folder, looks, ("kv_bytes_peak", "kv_bytes_mean"), "kv", "Keys and values held in memory")


def _bars(panel: Panel, folder: Path, looks: dict[str, Look], names: tuple[str, ...], file: str, title: str,
          value_of: Callable[..., Value] = Point.get) -> list[Path]:  # fmt: skip
    """Horizontal bars, one a method and target, at the smallest batch size that was timed."""
    sizes = timed_batch_sizes(panel, names[0])
    if not sizes:
        return []
    points = [p for p in panel.methods if p.get(names[0], sizes[0])]
    order = sorted(points, key=lambda p: (p.method != REFERENCE, p.label, p.target or 0), reverse=True)
    values = {name: [value_of(p, name, sizes[0]) for p in order] for name in names}
    ticks = [_at(p.label, p) + dagger([v]) for p, v in zip(order, values[names[0]], strict=True)]
    wide = 0.3 + 0.067 * max(map(len, ticks))
    fig, axes = figure(width=4.2, height=0.3 + (0.1 + 0.08 * len(names)) * len(order), left=wide)
    used = [looks[p.label] if p.method != REFERENCE else Look(INK, "", "", "") for p in order]
    for i, name in enumerate(names):
        _bar_row(axes[0][0], values[name], used, metric(name).scale, i, len(names))
    axes[0][0].set_yticks(range(len(order)), ticks)
    axes[0][0].set_ylim(-0.7, len(order) - 0.3)
    axes[0][0].grid(axis="y", visible=False)
    axes[0][0].axvline(0, color=INK, linewidth=0.8)
    words = " (dark) and ".join(metric(n).title for n in names) + (" (light)" if len(names) > 1 else "")
    axes[0][0].set_xlabel(f"{words}, batch size {sizes[0]}")
    footnote(fig, doubts(values["overhead_ms"]) if "overhead_ms" in names else [])
    heading(fig, panel, title)
    return save(fig, folder, f"{panel.slug}_{file}")


def _bar_row(axis, values: Sequence[Value], looks: Sequence[Look], scale: float, row: int, rows: int) -> None:
    """The bars of one metric, of which `rows` share a place; curves of one colour differ in the hatch."""
    thick = 0.8 / rows
    places = [y + (rows - 1) * thick / 2 - row * thick for y in range(len(values))]
    lengths = [(v.value or 0) * scale for v in values]
    colours = [tint(look.color, value) for look, value in zip(looks, values, strict=True)]
    how = {"hatch": [look.hatch for look in looks], "edgecolor": "white", "linewidth": 0}
    axis.barh(places, lengths, thick * 0.9, color=colours, alpha=1.0 if row == 0 else 0.5, **how)
    if (spread := bars(values)) is not None:
        spread = [[scale * x for x in side] for side in spread]
        axis.errorbar(lengths, places, xerr=spread, fmt="none", ecolor=QUIET, elinewidth=1.1)
