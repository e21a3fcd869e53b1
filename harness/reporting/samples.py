"""Sample outputs of every method beside each other, with the layers each token used shown as colour.

A record's optional `pieces` (the text of each output token) lets the text itself be coloured; without it a strip of
squares, one a token, stands under the text.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

from .markup import attributes, escape
from .panels import Panel
from .points import REFERENCE, Point
from .words import panel_title, target_title, task_title

SAMPLES = 4  # examples shown a panel
LONGEST = 1500  # characters of one output


def sample_section(panel: Panel) -> str:
    """A few examples of a panel, spread over the test set; the first is open."""
    order = sorted(panel.methods, key=lambda p: (p.method != REFERENCE, p.label, p.target or 0))
    points = [p for p in order if p.runs]
    records = {id(p): {r["id"]: r for r in p.runs[0].records()} for p in points}
    ids = list(dict.fromkeys(i for p in points for i in records[id(p)]))
    if not ids:
        return ""
    chosen = [ids[i * len(ids) // SAMPLES] for i in range(min(SAMPLES, len(ids)))]
    parts = [_example(i, example, points, records) for i, example in enumerate(dict.fromkeys(chosen))]
    keys = attributes({"task": task_title(panel.config["task"]), "model": panel.config["model"]["name"]})
    layers = panel.config["model"].get("num_layers")
    scale = "".join(f"<i style='--d:{d}'></i>" for d in range(8, 101, 23))
    return (f"<section{keys}><h3>{escape(panel_title(panel.config))}</h3>"
            f"<p class='note scale'>Colour: layers a token used, none {scale} all {layers}.</p>{''.join(parts)}"
            "</section>")  # fmt: skip


def _example(number: int, example: str, points: Sequence[Point], records: dict[int, dict]) -> str:
    rows = [_sample(p, records[id(p)][example]) for p in points if example in records[id(p)]]
    state = " open" if number == 0 else ""
    return f"<details{state}><summary>Example {escape(example)}</summary>{''.join(rows)}</details>"


def _sample(point: Point, record: dict) -> str:
    layers = token_layers(point, record)
    mean = sum(layers[1:]) / max(len(layers) - 1, 1)
    depth = f", {mean:.1f} of {point.num_layers} layers a decode step" if len(layers) > 1 else ""
    facts = f"{record['length']} tokens{depth}{'' if record.get('ended', True) else ', cut at the limit'}"
    target = f" {target_title(point.target)}" if point.target else ""
    return (f"<div class='sample'{attributes({'method': point.method})}><span class='who'>{escape(point.label)}{target}"
            f"</span> <span class='quiet'>{facts}</span>{_text(point, record, layers)}</div>")  # fmt: skip


def token_layers(point: Point, record: dict) -> list[int]:
    """Layers behind each output token: the first comes from the prompt's pass, the others from a decode step each."""
    plan = point.config.get("plan") or {}
    first = len(plan.get("prompt") or range(point.num_layers))
    return [first, *record["layers_needed"]][: max(record["length"], 1)]


def _text(point: Point, record: dict, layers: Sequence[int]) -> str:
    pieces = record.get("pieces")
    shares = [round(100 * used / point.num_layers) for used in layers]
    text = record["output"]
    more = f" … ({len(text) - LONGEST:,} more characters)" if len(text) > LONGEST else ""
    if pieces and text:
        ends = accumulate(map(len, pieces))
        spans = "".join(
            f"<span class='t' style='--d:{share}' title='{used} layers'>{escape(piece)}</span>"
            for piece, share, used, end in zip(pieces, shares, layers, ends, strict=False)
            if piece and end <= LONGEST
        )
        return f"<p class='text'>{spans}{more}</p>"
    strip = "".join(f"<i style='--d:{s}' title='{u} layers'></i>" for s, u in zip(shares, layers, strict=True))
    return f"<p class='text'>{escape(text[:LONGEST] + more) or '(empty)'}</p><div class='strip'>{strip}</div>"
