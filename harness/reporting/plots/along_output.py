"""What changes along an output: loss by its positions and KV memory by its decode steps, in axes for each target."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from ..panels import Panel
from ..points import REFERENCE, Point
from ..words import NO_TARGET, metric, target_title
from .looks import Look
from .plans import ENOUGH
from .style import INK, figure, finish


def draw(panel: Panel, folder: Path, looks: dict[str, Look]) -> list[Path]:
    """Both pictures, where the panel has numbers for them."""
    return _kv_by_step(panel, folder, looks) + _loss(panel, folder, looks)


def _kv_by_step(panel: Panel, folder: Path, looks: dict[str, Look]) -> list[Path]:
    """Bytes held after each decode step, at the smallest batch size that was timed."""
    timed = [(p, t) for p in panel.methods for t in p.timings if t.kv_bytes_by_step]
    size = min((t.batch_size for _, t in timed), default=None)
    scale = metric("kv_bytes_peak").scale
    held = [(p, [b * scale for b in t.kv_bytes_by_step]) for p, t in timed if t.batch_size == size]
    lines = [(p, range(1, len(steps) + 1), steps) for p, steps in held]
    title = f"Keys and values held, by decode step, batch size {size}"
    return _by_target(panel, folder, looks, lines, ("decode step", "keys and values (KiB)"), title, "kv-steps")


def _loss(panel: Panel, folder: Path, looks: dict[str, Look]) -> list[Path]:
    """Teacher-forced loss by output position, where the runs recorded it."""
    lines = [(p, *zip(*_known_loss(p), strict=True)) for p in panel.methods if p.extra("loss_by_position")]
    labels = ("output position (token)", "loss (nats per token)")
    return _by_target(panel, folder, looks, lines, labels, "Loss by position in the output", "loss")


Lines = Sequence[tuple[Point, Sequence[float], Sequence[float]]]  # a point with its xs and ys


def _by_target(panel: Panel, folder: Path, looks: dict[str, Look], lines: Lines, labels: tuple[str, str], title: str,
               name: str) -> list[Path]:  # fmt: skip
    """Lines without markers, in axes for each target and for the methods without one; full, dotted, in all of them."""
    if not lines:
        return []
    targets = sorted({p.target for p, *_ in lines if p.method != REFERENCE}, key=lambda t: t or 0) or [None]
    fig, axes = figure(1, len(targets), width=3.1, height=3.0, sharey=True)
    notes = []
    for axis, target in zip(axes[0], targets, strict=True):
        title_here = f"target {target_title(target)}" if target else NO_TARGET
        notes += [f"{title_here}: {names} coincide" for names in _coinciding(lines, target)]
        for point, xs, ys in lines:
            if point.method == REFERENCE:
                axis.plot(xs, ys, label=point.label, color=INK, linestyle=":")
            elif point.target == target:
                axis.plot(xs, ys, label=point.label, **looks[point.label].line())
        axis.set_title(title_here)
        axis.set_xlabel(labels[0])
        axis.xaxis.get_major_locator().set_params(integer=True)
    axes[0][0].set_ylabel(labels[1])
    if name == "kv-steps":
        axes[0][0].set_ylim(bottom=0)
    return finish(fig, axes, panel, folder, title, name, notes)


def _coinciding(lines: Lines, target: float | None) -> list[str]:
    """Names of the lines that hide each other in the axes of a target, a text for each group of them."""
    alike: dict[tuple, list[str]] = defaultdict(list)
    for point, _, ys in lines:
        if point.method == REFERENCE or point.target == target:
            alike[tuple(ys)].append(point.label)
    return [", ".join(sorted(names)) for names in alike.values() if len(names) > 1]


def _known_loss(point: Point) -> list[tuple[int, float]]:
    """(output position, mean loss), without positions that too few references reach, where it says little."""
    losses = point.extra("loss_by_position")
    tokens = point.extra("tokens_by_position") or [1] * len(losses)
    rows = zip(losses, tokens, strict=True)
    return [(i, x) for i, (x, n) in enumerate(rows, start=1) if x is not None and n >= ENOUGH * tokens[0]]
