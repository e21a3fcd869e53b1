"""One look for every picture: readable in print and without colour, the same bytes for the same numbers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from textwrap import wrap

from matplotlib import rc_context
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from ..panels import Panel
from ..words import model_title, source_title, task_title

INK, QUIET = "#222222", "#8A8A8A"
PALE = 0.45  # share of the colour in what is flagged

RC = {
    "font.size": 9, "axes.titlesize": 9.5, "axes.labelsize": 9, "legend.fontsize": 8, "xtick.labelsize": 8,
    "ytick.labelsize": 8, "font.family": "DejaVu Sans", "axes.spines.top": False, "axes.spines.right": False,
    "axes.edgecolor": INK, "axes.linewidth": 0.8, "axes.grid": True, "grid.color": "#E4E4E4", "grid.linewidth": 0.6,
    "axes.axisbelow": True, "lines.linewidth": 1.5, "lines.markersize": 6, "legend.frameon": False,
    "figure.facecolor": "white", "savefig.facecolor": "white", "svg.hashsalt": "skipbench", "errorbar.capsize": 2,
}  # fmt: skip


TOP, BOTTOM, RIGHT = 0.9, 0.45, 0.15  # margins in inches: heading, axis label, nothing


def styled():
    """Context manager: everything drawn inside has the report's look; the caller's own settings stay."""
    return rc_context(RC)


def figure(rows: int = 1, columns: int = 1, width: float = 3.4, height: float = 2.9, left: float = 0.65,
           gap: float = 0.3, **options) -> tuple:  # fmt: skip
    """A figure and its axes [rows][columns], each `width` × `height` inches, with room for a heading.

    The layout is plain arithmetic in inches: matplotlib's own layout engines draw everything once more.
    """
    wide = left + columns * width + (columns - 1) * gap + RIGHT
    high = TOP + rows * height + (rows - 1) * 1.3 * gap + BOTTOM
    fig = Figure(figsize=(wide, high))
    axes = fig.subplots(rows, columns, squeeze=False, **options)
    edges = {"left": left / wide, "right": 1 - RIGHT / wide, "top": 1 - TOP / high, "bottom": BOTTOM / high}
    fig.subplots_adjust(**edges, wspace=gap / width, hspace=1.3 * gap / height)
    return fig, axes


def widen(fig: Figure, inches: float) -> float:
    """Add room at the right; the axes keep their size. Returns where the new room begins, as a share of the width."""
    wide, high = fig.get_size_inches()
    new, edges = wide + inches, fig.subplotpars
    fig.set_size_inches(new, high)
    fig.subplots_adjust(left=edges.left * wide / new, right=edges.right * wide / new)
    return wide / new


def footnote(fig: Figure, notes: Sequence[str]) -> None:
    """Small lines under the axes, in room made for them; before heading and legend, which are placed from the top."""
    wide, high = fig.get_size_inches()
    lines = [line for note in notes for line in wrap(note, int((wide - 0.2) / 0.06), subsequent_indent="   ")]
    if not lines:
        return
    room = 0.08 + 0.15 * len(lines)
    new, edges = high + room, fig.subplotpars
    fig.set_size_inches(wide, new)
    fig.subplots_adjust(bottom=(edges.bottom * high + room) / new, top=(edges.top * high + room) / new)
    place = {"ha": "left", "va": "bottom", "fontsize": 7.5, "color": INK, "linespacing": 1.3}
    fig.text(0.12 / wide, 0.06 / new, "\n".join(lines), **place)


def pale(colour: str) -> tuple[float, float, float]:
    """The colour of what should not be believed at once; mixed with white, so that nothing shines through it."""
    return tuple(1 - PALE * (1 - part) for part in to_rgb(colour))


def heading(fig: Figure, panel: Panel, what: str) -> None:
    """Title of a figure: what it shows, then task, model, source and n; red for stand-in data."""
    config = panel.config
    place = f"{task_title(config['task'])} · {model_title(config.get('model'))} · n = {config.get('n')}"
    lines = [what, place, " · ".join(filter(None, [source_title(config.get("source")), config.get("apart")]))]
    widen(fig, max(0.0, 0.2 + 0.077 * max(map(len, lines)) - fig.get_figwidth()))
    colour = "#B00020" if config.get("source") == "stand-in" else INK
    wide, high = fig.get_size_inches()
    fig.suptitle("\n".join(lines), x=0.12 / wide, y=1 - 0.1 / high, ha="left", va="top", fontsize=9.5, color=colour)


def legend(fig: Figure, handles: list, labels: list[str], title: str | None = None) -> None:
    """One legend right of all axes, in room made for it."""
    unique = dict(zip(labels, handles, strict=True))
    longest = max(map(len, [*unique, title or ""]))
    start = widen(fig, 0.55 + 0.066 * longest)
    box = fig.legend(
        unique.values(), unique.keys(), loc="upper left", bbox_to_anchor=(start, fig.subplotpars.top), borderpad=0,
        handlelength=2.6, title=title, alignment="left", borderaxespad=0,
    )  # fmt: skip
    box.get_title().set_fontsize(8)


def axes_legend(fig: Figure, axes, title: str | None = None) -> None:
    """One legend for what is labelled in any of the axes."""
    pairs = [axis.get_legend_handles_labels() for axis in axes.flat]
    legend(fig, [h for handles, _ in pairs for h in handles], [x for _, labels in pairs for x in labels], title)


def save(fig: Figure, folder: Path, name: str) -> list[Path]:
    """Write PNG and SVG, without dates, and return the two paths."""
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{name}.png", folder / f"{name}.svg"]
    fig.savefig(paths[0], dpi=140, metadata={"Software": None})
    fig.savefig(paths[1], metadata={"Date": None, "Creator": None})
    return paths


def finish(
    fig: Figure, axes, panel: Panel, folder: Path, title: str, name: str, notes: Sequence[str] = ()
) -> list[Path]:
    """Footnote, one legend and heading, and save it as `<panel>_<name>`; returns the paths."""
    footnote(fig, notes)
    axes_legend(fig, axes)
    heading(fig, panel, title)
    return save(fig, folder, f"{panel.slug}_{name}")
