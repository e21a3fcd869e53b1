"""What `diagnose` finds, as a CSV and as text: measures by output position."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from dataclasses import dataclass

BANDS = ((1, 1), (2, 4), (5, 8), (9, 16), (17, 32), (33, 64), (65, 128), (129, 1024))  # output positions in a table
COLUMNS = ("measure", "method", "checkpoint", "layer", "position", "tokens", "value")


@dataclass(frozen=True)
class Curve:
    """One measure by output position (1, 2, …); `layer` (from 1) for agreement only."""

    measure: str  # loss (nats), accuracy (per cent), agreement (per cent)
    method: str
    checkpoint: str
    values: tuple[float, ...]
    layer: int | None = None


@dataclass(frozen=True)
class Diagnosis:
    """All curves of a task and model; `tokens`: output tokens at each position; `config` names what was looked at."""

    config: dict
    tokens: tuple[int, ...]
    curves: tuple[Curve, ...]

    def of(self, measure: str) -> list[Curve]:
        """The curves of a measure."""
        return [curve for curve in self.curves if curve.measure == measure]


def csv_text(found: Diagnosis) -> str:
    """One row a measure, method, layer and position."""
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(COLUMNS)
    for curve in found.curves:
        for place, value in enumerate(curve.values):
            key = (curve.measure, curve.method, curve.checkpoint, curve.layer)
            rows.writerow((*key, place + 1, found.tokens[place], f"{value:.6g}"))
    return text.getvalue()


def table_text(found: Diagnosis) -> str:
    """The measures as text, positions gathered into bands."""
    bands = [(a, min(b, len(found.tokens))) for a, b in BANDS if a <= len(found.tokens)]
    names = [str(a) if a == b else f"{a}-{b}" for a, b in bands]
    config = found.config
    lines = [f"{config['task']} ({config['source']}), {config['model']['name']}, {config['n']} validation examples"]
    titles = {"loss": "loss (nats a token)", "accuracy": "accuracy (%)", "agreement": "arg-max as the last layer's (%)"}
    for measure, title in titles.items():
        lines += ["", f"{title:<32} output position", " " * 32 + "".join(f"{name:>9}" for name in names)]
        for curve in found.of(measure):
            label = curve.method + (f" layer {curve.layer}" if curve.layer else "")
            cells = "".join(f"{_band(curve, found.tokens, *band):9.2f}" for band in bands)
            lines.append(f"{label:<32}{cells}")
    return "\n".join(lines)


def _band(curve: Curve, tokens: Sequence[int], first: int, last: int) -> float:
    """The mean over the tokens of positions `first` to `last`."""
    weights = tokens[first - 1 : last]
    return sum(w * v for w, v in zip(weights, curve.values[first - 1 : last], strict=True)) / sum(weights)
