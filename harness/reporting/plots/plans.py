"""Layers × position for every method and target: planned by schedules, needed by rows; where early exits leave."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.patches import Rectangle

from ..panels import Panel
from ..points import Point
from ..words import NO_TARGET, target_title
from .looks import Look
from .style import INK, QUIET, figure, footnote, heading, save, widen

GAP = 1.12  # from one picture of a row to the next, in widths
ENOUGH = 0.05  # steps that fewer than this share of the rows reach are not drawn
WHAT = (
    "Schedules: their plan. Early exits: the share of the test rows that needed each layer, of which a batch runs more."
)


def draw(panel: Panel, folder: Path, looks: dict[str, Look]) -> list[Path]:
    """The plan picture and the exit histogram of one panel."""
    return _plan_picture(panel, folder) + _exit_histogram(panel, folder, looks)


def _plan_picture(panel: Panel, folder: Path) -> list[Path]:
    rows = {k: v for k, v in panel.curves().items() if any(layer_shares(p) is not None and not p.guesses for p in v)}
    if not rows:
        return []
    columns = max(map(len, rows.values()))
    steps = _steps([p for points in rows.values() for p in points])
    fig, axes = figure(len(rows), 1, width=2.0 * columns, height=0.95, left=0.95, sharex=True, sharey=True)
    image = None
    for axis, (label, points) in zip(axes[:, 0], rows.items(), strict=True):
        ordered = sorted(points, key=lambda p: (p.target or 0, p.get("speedup_layers").value or 0))
        for place, point in enumerate(ordered):
            image = _plan(axis, point, steps, place * steps * GAP) or image
        axis.set_ylabel(label.replace(" ", "\n"), fontsize=8)
        axis.grid(False)
        axis.tick_params(axis="x", length=0)  # not every place of a row has a picture
        axis.spines[:].set_visible(False)
    _step_axis(axes[-1][0], steps, columns)
    footnote(fig, [WHAT])
    _scale(fig, image)
    heading(fig, panel, "Layers (upwards) planned or needed at each decode step; target → achieved")
    return save(fig, folder, f"{panel.slug}_plans")


def _step_axis(axis, steps: int, columns: int) -> None:
    """One axis under all pictures of a row, counting the steps anew in each."""
    marks = sorted({1, max(steps // 2, 1), steps})
    places = [(place * steps * GAP + mark, str(mark)) for place in range(columns) for mark in marks]
    axis.set_xticks([x for x, _ in places], [text for _, text in places])
    axis.set_xlim(0.3, (columns - 1) * steps * GAP + steps + 0.7)
    axis.set_xlabel("decode step")


def _scale(fig, image) -> None:
    """The colour scale, in room made at the right."""
    start, (wide, high) = widen(fig, 0.95), fig.get_size_inches()
    top = fig.subplotpars.top
    bar = fig.colorbar(image, cax=fig.add_axes((start + 0.05 / wide, top - 1.9 / high, 0.13 / wide, 1.9 / high)))
    bar.set_label("share of rows: the layer\nis planned or needed", fontsize=8)


def _steps(points: Sequence[Point]) -> int:
    """How many decode steps to draw: those that enough rows reach, in the longest of the runs."""
    shares = [s for p in points if (s := layer_shares(p)) is not None]
    return max(s.shape[1] for s in shares)


def layer_shares(point: Point) -> np.ndarray | None:
    """[layers, decode steps]: the share of rows that needed each layer, among rows still alive at the step.

    From the plan for a schedule, from the records for an early exit (which runs the bottom layers). None if neither
    says.
    """
    needed = _needed(point)
    plan = point.config.get("plan")
    if plan:
        steps = needed.shape[1] if needed is not None else len(plan["steps"])
        shares = np.zeros((point.num_layers, min(steps, len(plan["steps"]))))
        for step, layers in enumerate(plan["steps"][: shares.shape[1]]):
            shares[list(layers), step] = 1.0
        return shares if shares.size else None
    if needed is None:
        return None
    alive = np.maximum((needed > 0).sum(0), 1)
    return np.stack([(needed > layer).sum(0) / alive for layer in range(point.num_layers)])


def _needed(point: Point) -> np.ndarray | None:
    """[rows, steps] layers needed, 0 after a row's end; cut where too few rows go on."""
    rows = [r["layers_needed"] for r in point.records() if r["layers_needed"]]
    if not rows:
        return None
    needed = np.zeros((len(rows), max(map(len, rows))), int)
    for i, row in enumerate(rows):
        needed[i, : len(row)] = row
    alive = (needed > 0).mean(0) >= ENOUGH
    return needed[:, alive] if alive.any() else None


def _plan(axis, point: Point, steps: int, start: float):
    """One picture, `start` steps to the right; several share an axis because axes are what costs time to draw."""
    shares = layer_shares(point)
    if shares is None:
        return None
    layers, width = shares.shape
    image = axis.imshow(
        shares, origin="lower", aspect="auto", cmap="Blues", vmin=0, vmax=1, interpolation="nearest",
        extent=(start + 0.5, start + width + 0.5, -0.5, layers - 0.5),
    )  # fmt: skip
    axis.add_patch(Rectangle((start + 0.5, -0.5), steps, layers, fill=False, edgecolor=QUIET, linewidth=0.7))
    speed = point.get("speedup_layers").value
    title = f"{_asked(point)} → {speed:.2f}x" if speed else _asked(point)
    axis.text(start + 0.5 + steps / 2, layers, title, ha="center", va="bottom", fontsize=8.5)
    axis.set_yticks(range(0, layers, -(-layers // 4)))
    axis.set_ylim(-0.7, layers - 0.3)
    return image


def _asked(point: Point) -> str:
    return target_title(point.target) if point.target else NO_TARGET


def _exit_histogram(panel: Panel, folder: Path, looks: dict[str, Look]) -> list[Path]:
    """Where early exits leave: the share of decode steps that needed each number of layers."""
    exits = [(k, p) for k, v in panel.curves().items() for p in v if not p.config.get("plan") and not p.guesses]
    exits = [(label, p, needed) for label, p in exits if (needed := _needed(p)) is not None]
    if not exits:
        return []
    columns = min(len(exits), 3)
    rows = -(-len(exits) // columns)
    fig, axes = figure(rows, columns, width=2.7, height=1.9, sharex=True, sharey=True)
    for axis, (label, point, needed) in zip(axes.flat, exits, strict=False):
        _histogram(axis, needed[needed > 0], point.num_layers, looks[label])
        mean = needed[needed > 0].mean()
        axis.set_title(f"{label}, {_asked(point)} (mean {mean:.1f} layers)")
    for axis in axes.flat[len(exits) :]:
        axis.set_axis_off()
    for axis in axes.flat[max(len(exits) - columns, 0) : len(exits)]:  # the lowest of each column
        axis.set_xlabel("layers needed")
        axis.tick_params(labelbottom=True)
    for line in axes:
        line[0].set_ylabel("share of decode steps")
    heading(fig, panel, "Where early exits leave")
    return save(fig, folder, f"{panel.slug}_exits")


def _histogram(axis, needed: np.ndarray, layers: int, look: Look) -> None:
    counts = np.bincount(needed, minlength=layers + 1)[1 : layers + 1]
    axis.bar(
        range(1, layers + 1),
        counts / counts.sum(),
        color=look.color,
        width=0.8,
        hatch=look.hatch,
        edgecolor="white",
        linewidth=0,
    )
    axis.set_xlim(0.3, layers + 0.7)
    axis.xaxis.get_major_locator().set_params(integer=True)
    axis.axvline(float(needed.mean()), color=INK, linestyle="--", linewidth=1.1)
