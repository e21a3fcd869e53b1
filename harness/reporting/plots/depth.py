"""Depth at fixed weights: looped decoders of 1, 2, … cycles against quality and latency, sequential and pipelined."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from ..panels import Panel
from ..points import REFERENCE, Point, Timing, slug
from ..words import metric
from .looks import Look, assign_looks
from .style import INK, axes_legend, figure, heading, save

PIPELINED = "speed"


def draw(groups: Sequence[Panel], folder: Path) -> list[Path]:
    """A picture a task that has looped decoders of several depths from the same number of weights."""
    return [path for panels in _families(groups) for path in _picture(panels, folder)]


def _families(groups: Sequence[Panel]) -> list[list[Panel]]:
    """Panels whose models differ in their number of cycles alone, by depth."""
    found: dict[str, list[Panel]] = defaultdict(list)
    for panel in groups:
        model = panel.config.get("model") or {}
        if model.get("num_cycles"):
            unique = model["num_layers"] // model["num_cycles"]
            found[repr([model.get("family"), unique, *panel.like])].append(panel)
    families = [sorted(panels, key=lambda p: p.config["model"]["num_layers"]) for panels in found.values()]
    return [panels for panels in families if len({p.config["model"]["num_layers"] for p in panels}) > 1]


def _picture(panels: Sequence[Panel], folder: Path) -> list[Path]:
    sizes = sorted({t.batch_size for p in panels for point in p.methods for t in point.timings})
    fig, axes = figure(1, 1 + len(sizes), width=3.0, height=2.9, gap=0.65)
    name = panels[0].main_metric
    for method, label in ((REFERENCE, "sequential"), (PIPELINED, "pipelined (speed)")):
        look = Look(INK, "*", ":", "") if method == REFERENCE else assign_looks([method])[method]
        points = [p for panel in panels for p in panel.methods if p.method == method and p.checkpoint == "own"]
        if method == REFERENCE:
            _line(axes[0][0], [(p, p.get(name)) for p in points], name, "", look)
        for axis, size in zip(axes[0][1:], sizes, strict=True):
            spots = [(p, t.values["decode_ms_per_token"]) for p in points for t in _timed(p, size)]
            _line(axis, spots, "decode_ms_per_token", label, look)
            axis.set_title(f"batch size {size}")
    for axis in axes[0]:
        axis.set_xlabel("layers run (cycles of the same weights)")
        axis.set_xticks([p.config["model"]["num_layers"] for p in panels])
    axes[0][0].set_ylabel(metric(name).title)
    axes[0][0].set_title("quality")
    for axis in axes[0][1:]:
        axis.set_ylabel(metric("decode_ms_per_token").title)
        axis.set_ylim(bottom=0)
    axes_legend(fig, axes)
    cycles = panels[-1].config["model"]["num_cycles"]
    heading(fig, panels[0], f"Quality and latency by depth: the weights of this model, run up to {cycles} times")
    return save(fig, folder, f"depth_{slug(panels[0].slug)}")


def _timed(point: Point, size: int) -> list[Timing]:
    return [t for t in point.timings if t.batch_size == size and t.values.get("decode_ms_per_token")]


def _line(axis, spots: Sequence[tuple], name: str, label: str, look: Look) -> None:
    scale = metric(name).scale
    spots = [(p.num_layers, v) for p, v in spots if v]
    if not spots:
        return
    bars = [[(v.value - (v.value if v.low is None else v.low)) * scale for _, v in spots],
            [((v.value if v.high is None else v.high) - v.value) * scale for _, v in spots]]  # fmt: skip
    xs, ys = [x for x, _ in spots], [v.value * scale for _, v in spots]
    axis.errorbar(xs, ys, yerr=bars, label=label or None, elinewidth=0.9, **look.curve())
