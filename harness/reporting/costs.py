"""What skipping really costs and saves: target against achieved, batch size, overhead, KV memory, loss by position."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from matplotlib.ticker import LogLocator

from .curves import bars, timed_batch_sizes
from .panels import Panel
from .plans import ENOUGH
from .points import REFERENCE, Point, Value
from .style import INK, QUIET, axes_legend, figure, heading, look, save
from .words import metric, target_title


def draw(panel: Panel, folder: Path) -> list[Path]:
    """Every cost picture for which the panel has numbers."""
    drawers = (_achieved, _batch, _throughput, _overhead, _kv, _kv_by_step, _loss)
    return [path for drawer in drawers for path in drawer(panel, folder)]


def _achieved(panel: Panel, folder: Path) -> list[Path]:
    """Achieved against target speed-up, by layers and by the clock."""
    curves = {k: [p for p in v if p.target] for k, v in panel.curves().items()}
    if not any(p.get("speedup_layers") for v in curves.values() for p in v):
        return []
    sizes = timed_batch_sizes(panel, "speedup_wall")[:1]
    kinds = [("speedup_layers", None, "by layers")]
    kinds += [("speedup_wall", size, f"by the clock, batch size {size}") for size in sizes]
    fig, axes = figure(1, len(kinds), width=3.3, height=3.1, sharey=True)
    for axis, (name, size, title) in zip(axes[0], kinds, strict=True):
        top = max(p.target for v in curves.values() for p in v)
        axis.plot([1, top], [1, top], ":", color=INK, linewidth=0.9, label="as asked")
        for label, points in curves.items():
            _line(axis, points, lambda p: p.target, lambda p, n=name, s=size: p.get(n, s), label, list(curves))
        axis.set_title(title)
        axis.set_xlabel("target speed-up (×)")
    axes[0][0].set_ylabel("achieved speed-up (×)")
    return _finish(fig, axes, panel, folder, "Achieved against target speed-up", "achieved")


def _line(axis, points: Sequence[Point], x_of, y_of, label: str, labels: list[str]) -> None:
    spots = sorted((x_of(p), y_of(p)) for p in points if y_of(p))
    if spots:
        axis.plot([x for x, _ in spots], [y.value for _, y in spots], label=label, **look(label, labels))


def _finish(fig, axes, panel: Panel, folder: Path, title: str, name: str) -> list[Path]:
    axes_legend(fig, axes)
    heading(fig, panel, title)
    return save(fig, folder, f"{panel.slug}_{name}")


def by_batch(point: Point, name: str) -> list[tuple[int, Value]]:
    """(batch size, value) of a metric over all timings of a point, ascending."""
    return sorted(((t.batch_size, t.values[name]) for t in point.timings if t.values.get(name)), key=lambda s: s[0])


def _chosen(panel: Panel, name: str, batches: int = 2) -> dict[str, Point]:
    """One point a curve, at its lowest target, where `name` was timed at enough batch sizes."""
    curves = {k: [p for p in v if len(by_batch(p, name)) >= batches] for k, v in panel.curves().items()}
    return {k: min(v, key=lambda p: p.target or 0) for k, v in curves.items() if v}


def _batch(panel: Panel, folder: Path) -> list[Path]:
    """Layers a row needed and layers the batch ran, by batch size."""
    chosen = _chosen(panel, "speedup_layers_batch")
    if not chosen:
        return []
    fig, axes = figure(width=4.2, height=3.1)
    for label, point in chosen.items():
        style = look(label, list(panel.curves()))
        for name, line, text in (("speedup_layers_batch", "-", _at(label, point)), ("speedup_layers", ":", "")):
            spots = by_batch(point, name)
            layers = [point.num_layers / v.value for _, v in spots]
            axes[0][0].plot([b for b, _ in spots], layers, label=text or None, **{**style, "linestyle": line})
    axes[0][0].plot([], [], "-", color=QUIET, label="run by the batch")
    axes[0][0].plot([], [], ":", color=QUIET, label="needed by a row")
    _batch_axis(axes[0][0], [b for p in chosen.values() for b, _ in by_batch(p, "speedup_layers_batch")])
    axes[0][0].set_ylabel("mean layers a decode step")
    axes[0][0].axhline(next(iter(chosen.values())).num_layers, color=INK, linestyle="--", linewidth=0.9, label="full")
    axes[0][0].set_ylim(bottom=0)
    return _finish(fig, axes, panel, folder, "Layers needed by a row and run by its batch", "batch")


def _at(label: str, point: Point) -> str:
    return f"{label} {target_title(point.target)}" if point.target else label


def _batch_axis(axis, sizes: Sequence[int]) -> None:
    axis.set_xscale("log", base=2)
    axis.set_xticks(sorted(set(sizes)), [str(s) for s in sorted(set(sizes))])
    axis.minorticks_off()
    axis.set_xlabel("batch size (rows)")


def _throughput(panel: Panel, folder: Path) -> list[Path]:
    """Decoded tokens per second by batch size."""
    chosen = _chosen(panel, "tokens_per_s")
    full = panel.reference()
    if not chosen:
        return []
    fig, axes = figure(width=4.2, height=3.1)
    for label, point in chosen.items():
        spots = by_batch(point, "tokens_per_s")
        axes[0][0].plot([b for b, _ in spots], [v.value for _, v in spots], label=_at(label, point),
                        **look(label, list(panel.curves())))  # fmt: skip
    if full and by_batch(full, "tokens_per_s"):
        spots = by_batch(full, "tokens_per_s")
        axes[0][0].plot([b for b, _ in spots], [v.value for _, v in spots], ":*", color=INK, label="full")
    _batch_axis(axes[0][0], [b for p in chosen.values() for b, _ in by_batch(p, "tokens_per_s")])
    axes[0][0].set_ylabel("decoded tokens per second")
    axes[0][0].set_yscale("log")
    axes[0][0].yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes[0][0].yaxis.set_major_formatter("{x:g}")
    axes[0][0].yaxis.set_minor_formatter("")
    return _finish(fig, axes, panel, folder, "Throughput by batch size", "throughput")


def _overhead(panel: Panel, folder: Path) -> list[Path]:
    return _bars(panel, folder, ("overhead_ms",), "overhead", "Wall time that layers and heads do not explain")


def _kv(panel: Panel, folder: Path) -> list[Path]:
    return _bars(panel, folder, ("kv_bytes_peak", "kv_bytes_mean"), "kv", "Keys and values held in memory")


def _kv_by_step(panel: Panel, folder: Path) -> list[Path]:
    """Bytes held after each decode step, at the smallest batch size that was timed."""
    timed = [(p, t) for p in panel.methods for t in p.timings if t.kv_bytes_by_step]
    size = min((t.batch_size for _, t in timed), default=None)
    timed = [(p, t) for p, t in timed if t.batch_size == size]
    targets = sorted({p.target for p, _ in timed if p.target})
    if not targets:
        return []
    fig, axes = figure(1, len(targets), width=3.1, height=3.0, sharey=True)
    labels, scale = list(panel.curves()), metric("kv_bytes_peak").scale
    for axis, target in zip(axes[0], targets, strict=True):
        for point, timing in (pair for pair in timed if pair[0].target in (target, None)):
            steps = range(1, len(timing.kv_bytes_by_step) + 1)
            style = _plain(point, labels)
            axis.plot(steps, [b * scale for b in timing.kv_bytes_by_step], label=point.label, **style)
        axis.set_title(f"target {target_title(target)}")
        axis.set_xlabel("decode step")
        axis.set_ylim(bottom=0)
    axes[0][0].set_ylabel("keys and values (KiB)")
    return _finish(fig, axes, panel, folder, f"Keys and values held, by decode step, batch size {size}", "kv-steps")


def _plain(point: Point, labels: list[str]) -> dict:
    """The look of a line without markers; full is dotted."""
    return (
        {"color": INK, "linestyle": ":"} if point.method == REFERENCE else {**look(point.label, labels), "marker": ""}
    )


def _bars(panel: Panel, folder: Path, names: tuple[str, ...], file: str, title: str) -> list[Path]:
    """Horizontal bars, one a method and target, at the smallest batch size that was timed."""
    sizes = timed_batch_sizes(panel, names[0])
    if not sizes:
        return []
    points = [p for p in panel.methods if p.get(names[0], sizes[0])]
    order = sorted(points, key=lambda p: (p.method != REFERENCE, p.label, p.target or 0), reverse=True)
    wide = 0.3 + 0.067 * max(len(_at(p.label, p)) for p in order)
    fig, axes = figure(width=4.2, height=0.3 + (0.1 + 0.08 * len(names)) * len(order), left=wide)
    thick = 0.8 / len(names)
    for i, name in enumerate(names):
        values = [p.get(name, sizes[0]) for p in order]
        places = [y + (len(names) - 1) * thick / 2 - i * thick for y in range(len(order))]
        scale = metric(name).scale
        colours = [look(p.label, [q.label for q in order])["color"] if p.method != REFERENCE else INK for p in order]
        lengths = [(v.value or 0) * scale for v in values]
        axes[0][0].barh(places, lengths, thick * 0.9, color=colours, alpha=1.0 if i == 0 else 0.5)
        if (spread := bars(values)) is not None:
            spread = [[scale * x for x in side] for side in spread]
            axes[0][0].errorbar(lengths, places, xerr=spread, fmt="none", ecolor=QUIET, elinewidth=1.1)
    axes[0][0].set_yticks(range(len(order)), [_at(p.label, p) for p in order])
    axes[0][0].set_ylim(-0.7, len(order) - 0.3)
    axes[0][0].grid(axis="y", visible=False)
    axes[0][0].axvline(0, color=INK, linewidth=0.8)
    words = " (dark) and ".join(metric(n).title for n in names) + (" (light)" if len(names) > 1 else "")
    axes[0][0].set_xlabel(f"{words}, batch size {sizes[0]}")
    heading(fig, panel, title)
    return save(fig, folder, f"{panel.slug}_{file}")


def _loss(panel: Panel, folder: Path) -> list[Path]:
    """Teacher-forced loss by output position, where the runs recorded it."""
    points = [p for p in panel.methods if p.extra("loss_by_position")]
    if not points:
        return []
    targets = sorted({p.target for p in points if p.target}) or [None]
    fig, axes = figure(1, len(targets), width=3.1, height=3.0, sharey=True)
    labels = list(panel.curves())
    for axis, target in zip(axes[0], targets, strict=True):
        for point in (p for p in points if p.target in (target, None)):
            loss = _known_loss(point)
            axis.plot([i for i, _ in loss], [x for _, x in loss], label=point.label, **_plain(point, labels))
        axis.set_title(f"target {target_title(target)}")
        axis.set_xlabel("output position (token)")
    axes[0][0].set_ylabel("loss (nats per token)")
    return _finish(fig, axes, panel, folder, "Loss by position in the output", "loss")


def _known_loss(point: Point) -> list[tuple[int, float]]:
    """(output position, mean loss), without positions that too few references reach, where it says little."""
    losses = point.extra("loss_by_position")
    tokens = point.extra("tokens_by_position") or [1] * len(losses)
    rows = zip(losses, tokens, strict=True)
    return [(i, x) for i, (x, n) in enumerate(rows, start=1) if x is not None and n >= ENOUGH * tokens[0]]
