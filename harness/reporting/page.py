"""report.html: one file that opens from disk with no network; every text from outside escaped."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from pathlib import Path

from ..results.encoding import dumps
from .claims.claims import Judgement
from .markup import attributes, escape
from .panels import Panel
from .samples import sample_section
from .tables.table import Cell, Column, Table
from .words import model_title, number, panel_title, task_title

ASSETS = Path(__file__).parent / "assets"
WIDE, FLAT = 600, 1.2  # points; width over height: plots beyond both get the whole width
POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'unsafe-inline'"
PLOT_WORDS = {
    "speed-quality_layers": "Quality against layer speed-up",
    "speed-quality_wall": "Quality against wall-clock speed-up",
    "plans": "Layers planned or needed at each decode step",
    "exits": "Where early exits leave",
    "achieved": "Achieved against target speed-up",
    "batch": "Layers needed and run by batch size",
    "throughput": "Throughput by batch size",
    "overhead": "Overhead",
    "kv": "KV memory",
    "kv-steps": "KV memory by decode step",
    "loss": "Loss by position",
}


def render(
    groups: Sequence[Panel], tables: Sequence[Table], judgements: Sequence[Judgement], claims: Table,
    plots: Sequence[Path], problems: Sequence[str],
) -> str:  # fmt: skip
    """The whole page: verdicts, tables, plots, sample outputs, environment and recipes."""
    sections = [
        _problems(problems),
        _verdicts(judgements, claims),
        "<h2 id='tables'>Tables</h2>",
        *(_table(table) for table in tables),
        "<h2 id='plots'>Plots</h2>",
        *(_plots(panel, plots) for panel in groups),
        _depth_plots(plots),
        "<h2 id='samples'>Sample outputs</h2>",
        *(sample_section(panel) for panel in groups),
        "<h2 id='recipe'>Environment and recipe</h2>",
        *(_recipes(panel) for panel in groups),
    ]
    return _frame(groups, tables, "\n".join(sections))


def _frame(groups: Sequence[Panel], tables: Sequence[Table], body: str) -> str:
    css, script = ((ASSETS / name).read_text(encoding="utf-8") for name in ("report.css", "report.js"))
    suites = ", ".join(sorted({str(p.config.get("suite")) for p in groups})) or "no runs yet"
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{POLICY}"><link rel="icon" href="data:,">
<title>skipbench: {escape(suites)}</title><style>
{css}</style></head><body>
<header><h1>Layer skipping: speed and quality</h1>
<p class="quiet">Suite {escape(suites)}. {escape(_extent(groups))}
<a href="#verdicts">Verdicts</a> · <a href="#tables">Tables</a> · <a href="#plots">Plots</a> ·
<a href="#samples">Samples</a> · <a href="#recipe">Recipe</a></p>{_standin(groups)}</header>
{_filters(tables)}
<main>
{body}
</main><script>
{script}</script></body></html>
"""


def _extent(groups: Sequence[Panel]) -> str:
    runs = sum(len(p.runs) for g in groups for p in g.points)
    tasks = ", ".join(sorted({task_title(g.config["task"]) for g in groups}))
    return f"{runs} runs on {tasks or 'no task'}."


def _standin(groups: Sequence[Panel]) -> str:
    tasks = sorted({task_title(g.config["task"]) for g in groups if g.config.get("source") == "stand-in"})
    if not tasks:
        return ""
    return (f"<p class='standin'>STAND-IN DATA: {escape(', '.join(tasks))} ran on made-up examples, not on the real "
            "task. These numbers say nothing about it.</p>")  # fmt: skip


def _filters(tables: Sequence[Table]) -> str:
    def choice(key: str) -> str:
        values = sorted({str(k[key]) for table in tables for k in table.keys if k.get(key)})
        options = "".join(f"<option>{escape(v)}</option>" for v in values)
        return f"<label>{key} <select name='{key}'><option value=''>all</option>{options}</select></label>"

    choices = "".join(choice(key) for key in ("task", "method", "model"))
    return f"<nav class='filters'><form>{choices}<button class='plain' type='reset'>show all</button></form></nav>"


def _problems(problems: Sequence[str]) -> str:
    if not problems:
        return ""
    items = "".join(f"<li>{escape(p)}</li>" for p in problems)
    return f"<h2 id='problems'>Not complete</h2><ul class='problems'>{items}</ul>"


def _verdicts(judgements: Sequence[Judgement], claims: Table) -> str:
    counts: dict[str, int] = {}
    for judgement in judgements:
        counts[judgement.verdict.verdict] = counts.get(judgement.verdict.verdict, 0) + 1
    chips = " ".join(f"<span class='chip {_css(v)}'>{n} {escape(v)}</span>" for v, n in sorted(counts.items()))
    body = _table(claims) if claims.rows else "<p class='quiet'>No claim is touched by these results.</p>"
    return f"<h2 id='verdicts'>Verdicts</h2><p>{chips}</p>{body}"


def _css(verdict: str) -> str:
    return verdict.replace(" ", "-")


def _table(table: Table) -> str:
    heads = "".join(
        f"<th aria-sort='none'{_number(c)}><button type='button'>{escape(c.heading)}</button></th>"
        for c in table.columns
    )
    rows = "".join(
        f"<tr{attributes(keys)}>" + "".join(map(_cell, row, table.columns)) + "</tr>\n"
        for row, keys in zip(table.rows, table.keys, strict=True)
    )
    note = f"<p class='note'>{escape(table.footnote)}</p>" if table.footnote else ""
    title = f"<h3>{escape(table.title)} <span class='count quiet'></span></h3>"
    grid = f"<table><thead><tr>{heads}</tr></thead>\n<tbody>{rows}</tbody></table>"
    box = f"<div class='scroll' tabindex='0'>{grid}</div>"
    return f"<section class='table' id='{escape(table.id)}'>{title}{box}{note}</section>"


def _number(column: Column) -> str:
    return " class='number'" if column.name else ""


def _cell(cell: Cell, column: Column) -> str:
    if not column.name:
        verdict = column.heading == "verdict"
        text = f"<span class='chip {_css(cell.text)}'>{escape(cell.text)}</span>" if verdict else escape(cell.text)
        return f'<td{" class=prose" if len(cell.text) > 24 else ""} data-v="{escape(cell.text)}">{text}</td>'
    if not cell.value:
        return f"<td class='number'>{escape(cell.shown)}</td>"
    short = number(cell.value.value, cell.name)
    rest = escape(cell.shown[len(short) :])
    best = " best" if cell.best else ""
    return f"<td class='number{best}' data-v='{cell.value.value!r}'>{short}<span class='interval'>{rest}</span></td>"


def _plots(panel: Panel, plots: Sequence[Path]) -> str:
    keys = attributes({"task": task_title(panel.config["task"]), "model": panel.config["model"]["name"]})
    figures = "".join(
        _figure(path, words)
        for kind, words in PLOT_WORDS.items()
        for path in plots
        if path.name == f"{panel.slug}_{kind}.svg"
    )
    return f"<section{keys}><h3>{escape(panel_title(panel.config))}</h3><div class='plots'>{figures}</div></section>"


def _figure(path: Path, words: str) -> str:
    """A plot; a wide one gets the whole width, so that its words can be read."""
    data = path.read_bytes()
    wide, high = (float(re.search(rb'<svg[^>]* %s="([\d.]+)pt"' % side, data)[1]) for side in (b"width", b"height"))
    kind = " class='wide'" if wide > max(WIDE, FLAT * high) else ""
    source = f"data:image/svg+xml;base64,{base64.b64encode(data).decode('ascii')}"
    return f"<figure{kind}><img alt='{escape(words)}' src='{source}'></figure>"


def _depth_plots(plots: Sequence[Path]) -> str:
    """Pictures that compare models."""
    paths = [path for path in plots if path.name.startswith("depth_") and path.suffix == ".svg"]
    if not paths:
        return ""
    figures = "".join(_figure(path, "Quality and latency by depth") for path in paths)
    return f"<section><h3>Looped decoders by depth</h3><div class='plots'>{figures}</div></section>"


def _recipes(panel: Panel) -> str:
    config = panel.config
    keys = attributes({"task": task_title(config["task"]), "model": config["model"]["name"]})
    shared = {k: config.get(k) for k in SHARED}
    by_method = {f"{p.label} {p.target or ''}".strip(): p.config.get("training") for p in panel.methods}
    return (f"<section{keys}><details><summary>{escape(panel_title(config))}</summary>"
            f"<p>{escape(model_title(config.get('model')))}</p>{_pre('Setting', shared)}"
            f"{_pre('Training, by method', by_method)}{_pre('Environment', config.get('environment'))}"
            "</details></section>")  # fmt: skip


SHARED = ("task", "split", "source", "data_hash", "n", "limit", "model", "batch_size", "dtype", "device", "threads",
          "attention", "decoding", "seed", "max_prompt_tokens", "max_new_tokens", "prompt_template")  # fmt: skip


def _pre(title: str, value: object) -> str:
    return f"<h3>{escape(title)}</h3><pre>{escape(dumps(value, indent=2))}</pre>"
