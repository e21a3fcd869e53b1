"""Which colour, marker, line and hatch stands for which curve: one assignment for every picture of a results folder."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

# Okabe and Ito's palette, told apart by the colour-blind; yellow is left out because it vanishes in print.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#7F7F7F", "#5D3A9B", "#8C564B")
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "<", "d", "h", "p", ">")
LINES = ("-", "--", "-.", (0, (5, 1, 1, 1, 1, 1)), (0, (8, 2)), (0, (1, 1)))  # ":" is full's
HATCHES = ("", "///", "...", "xxx", "\\\\\\", "+++")
KNOWN = ("skipdecode", "unified", "calm", "multi_layer", "self_speculative", "speed", "random_skip", "oracle_exit")


@dataclass(frozen=True)
class Look:
    """How a curve is drawn. Curves of one colour differ in line and hatch, methods of one colour in the marker too."""

    color: str
    marker: str
    linestyle: object
    hatch: str

    def curve(self) -> dict:
        """A line with markers, as matplotlib's keywords."""
        return {"color": self.color, "marker": self.marker, "linestyle": self.linestyle}

    def line(self) -> dict:
        """The same without markers."""
        return {**self.curve(), "marker": ""}


def assign_looks(labels: Iterable[str]) -> dict[str, Look]:
    """A look for each label (a method's name, then what tells its variants apart); the order does not matter.

    Well-known methods keep theirs in every folder; any other takes a colour and a marker that no method here has. When
    the colours run out they are used again with another marker and line.
    """
    labels = sorted(set(labels))
    pairs = _pairs({_method(label) for label in labels})
    looks, used = {}, Counter()
    for label in sorted(labels, key=lambda x: (*_rank(_method(x)), x)):
        colour, marker = pairs[_method(label)]
        again = used[colour] % len(LINES)
        looks[label] = Look(colour, marker, LINES[again], HATCHES[again])
        used[colour] += 1
    return looks


def _method(label: str) -> str:
    return label.split(" ")[0]


def _rank(method: str) -> tuple[int, str]:
    return (KNOWN.index(method), "") if method in KNOWN else (len(KNOWN), method)


def _pairs(methods: set[str]) -> dict[str, tuple[str, str]]:
    """(colour, marker) of each method. Others take the least used, from the end, where the rarest methods' are."""
    pairs = {m: (COLOURS[i], MARKERS[i]) for i, m in enumerate(KNOWN) if m in methods}
    for method in sorted(methods - set(KNOWN)):
        colours, markers = (Counter(part) for part in zip(*pairs.values(), strict=True)) if pairs else ({}, {})
        free = [(c, m) for c in reversed(COLOURS) for m in reversed(MARKERS) if (c, m) not in pairs.values()]
        free = free or [(c, m) for c in reversed(COLOURS) for m in reversed(MARKERS)]
        pairs[method] = min(free, key=lambda pair: (colours.get(pair[0], 0), markers.get(pair[1], 0)))
    return pairs
