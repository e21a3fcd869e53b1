"""The plot of `diagnose`: loss and accuracy by output position, and how early each layer agrees with the last."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from ..positions import Curve, Diagnosis
from ..words import model_title, source_title, task_title
from . import style
from .looks import assign_looks

ENOUGH = 20  # tokens at a position below which its mean says little and is left out


def save_plot(found: Diagnosis, folder: Path, name: str) -> list[Path]:
    """Draw it and save it as PNG and SVG; returns the two paths."""
    maps = list(dict.fromkeys(curve.method for curve in found.of("agreement")))
    shown = max(1, sum(count >= ENOUGH for count in found.tokens))
    with style.styled():
        fig, axes = style.figure(1 + -(-len(maps) // 2), 2, width=3.7, height=2.6, left=0.6, gap=0.65)
        _curves(axes[0, 0], found.of("loss"), shown, "loss (nats a token)")
        _curves(axes[0, 1], found.of("accuracy"), shown, "accuracy (%)")
        rest = list(axes[1:].flat)
        for axis, method in zip(rest, maps, strict=False):
            image = _map(axis, [c for c in found.of("agreement") if c.method == method], shown, method)
        for axis in rest[len(maps) :]:
            axis.set_visible(False)
        style.axes_legend(fig, axes[:1])
        if maps:
            _colour_bar(fig, rest[min(len(maps), 2) - 1], image)
        _heading(fig, found.config)
        return style.save(fig, folder, name)


def _curves(axis, curves: Sequence[Curve], shown: int, label: str) -> None:
    looks = assign_looks(curve.method for curve in curves if curve.method != "full")
    for number, curve in enumerate(curves):
        full = curve.method == "full"
        how = {"color": style.INK, "linestyle": "-"} if full else looks[curve.method].curve()
        how |= {
            "markevery": (number % 4, 4),
            "markersize": 4,
            "linewidth": 1.1,
        }  # markers tell curves apart without hiding them
        axis.plot(range(1, shown + 1), curve.values[:shown], label=curve.method, **how)
    axis.set_ylabel(label)
    axis.set_xlabel("output position")
    axis.set_xlim(0.5, shown + 0.5)  # as the maps below
    axis.xaxis.get_major_locator().set_params(integer=True)


def _map(axis, curves: Sequence[Curve], shown: int, method: str):
    values = np.array([curve.values[:shown] for curve in sorted(curves, key=lambda c: c.layer)])
    edges = (0.5, shown + 0.5, 0.5, len(values) + 0.5)
    image = axis.imshow(values, origin="lower", aspect="auto", extent=edges, cmap="viridis", vmin=0, vmax=100)
    axis.grid(False)
    axis.set_title(f"agreement with the last layer: checkpoint of {method}", loc="left")
    axis.set_xlabel("output position")
    axis.set_ylabel("layer")
    axis.xaxis.get_major_locator().set_params(integer=True)
    axis.yaxis.get_major_locator().set_params(integer=True)
    return image


def _colour_bar(fig: Figure, axis, image) -> None:
    """Right of the first row's last map: in the room that the legend made, or more."""
    room = (1 - fig.subplotpars.right) * fig.get_figwidth()
    style.widen(fig, max(0.0, 1.1 - room))
    box, wide = axis.get_position(), fig.get_figwidth()
    place = fig.add_axes((box.x1 + 0.25 / wide, box.y0, 0.14 / wide, box.height))
    fig.colorbar(image, cax=place, label="same arg-max (%)")


def _heading(fig: Figure, config: dict) -> None:
    lines = [
        "Teacher-forced on validation references, by output position",
        f"{task_title(config['task'])} · {model_title(config['model'])} · n = {config['n']}",
        source_title(config["source"]),
    ]
    wide, high = fig.get_size_inches()
    colour = "#B00020" if config["source"] == "stand-in" else style.INK
    fig.suptitle("\n".join(lines), x=0.12 / wide, y=1 - 0.1 / high, ha="left", va="top", fontsize=9.5, color=colour)
