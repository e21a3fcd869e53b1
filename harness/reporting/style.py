"""One look for every picture: readable in print and without colour, the same bytes for the same numbers."""

from __future__ import annotations

from pathlib import Path

from matplotlib import rc_context
from matplotlib.figure import Figure

from .panels import Panel
from .words import model_title, source_title, task_title

# Okabe and Ito's palette, told apart by the colour-blind; yellow is left out because it vanishes in print.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#7F7F7F", "#5D3A9B", "#8C564B")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")
KNOWN = ("skipdecode", "unified", "calm", "multi_layer", "self_speculative", "speed", "random_skip", "oracle_exit")
INK, QUIET = "#222222", "#8A8A8A"

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


def look(label: str, labels: list[str]) -> dict:
    """Colour and marker of a curve. Well-known methods keep theirs in every figure; others take what is left."""
    base = label.split(" ")[0]
    family = [x for x in labels if x.split(" ")[0] == base]
    others = sorted({x.split(" ")[0] for x in labels} - set(KNOWN))
    place = KNOWN.index(base) if base in KNOWN else len(KNOWN) + others.index(base)
    line = ("-", "--", ":", "-.")[family.index(label) % 4]  # variants of one method share its colour
    return {"color": COLOURS[place % len(COLOURS)], "marker": MARKERS[place % len(MARKERS)], "linestyle": line}


def heading(fig: Figure, panel: Panel, what: str) -> None:
    """Title of a figure: what it shows, then task, model, source and n; red for stand-in data."""
    config = panel.config
    place = f"{task_title(config['task'])} · {model_title(config.get('model'))} · n = {config.get('n')}"
    lines = [what, place, source_title(config.get("source"))]
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
