"""The documents tell the truth: what they name is there, and what is there they name."""

from __future__ import annotations

import csv
import dataclasses
import re
from pathlib import Path

import pytest

from harness.registry import METHODS
from harness.reporting.words import METRICS as WORDS
from harness.results.tidy import TIMED
from harness.scoring.names import METRICS

ROOT = Path(__file__).resolve().parent.parent
DOCS = sorted((ROOT / "docs").glob("*.md"))
METHODS_TEXT, MEASURING, RESULTS = (
    (ROOT / "docs" / f"{name}.md").read_text(encoding="utf-8") for name in ("methods", "measuring", "results")
)
APART = {"speed", "self_speculative"}  # described in a document of their own


def rows(text: str) -> list[list[str]]:
    """The cells of every table row but headings."""
    lines = [line for line in text.splitlines() if line.startswith("| `")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


@pytest.mark.parametrize("path", DOCS, ids=[p.stem for p in DOCS])
def test_links_lead_somewhere(path):
    text = path.read_text(encoding="utf-8")
    for link in re.findall(r"\]\((?!https?:)([^)]+)\)", text):
        name, _, anchor = link.partition("#")
        target = path.parent / name
        assert target.is_file(), link
        headings = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), re.MULTILINE)
        assert not anchor or anchor in {h.lower().replace(" ", "-") for h in headings}, link


def test_every_built_in_method_is_described():
    names = {path.stem for path in (ROOT / "methods").glob("*.py")} - {"__init__"} - APART
    assert {name for name in names if f"`{name}`" not in METHODS_TEXT} == set()


@pytest.mark.parametrize("method", ["skipdecode", "calm", "unified"])
def test_every_parameter_is_described_with_its_default(method):
    section = METHODS_TEXT.split(f"## `{method}`")[1].split("\n## ")[0]
    told = {}
    for names, values, _ in rows(section):
        names, values = re.findall(r"`(\w+)`", names), [v.strip(" `") for v in values.split(", ")]
        told |= dict(zip(names, values if len(values) == len(names) else values * len(names), strict=True))
    fields = {f.name: f for f in dataclasses.fields(METHODS.load(method)) if f.name != "num_layers"}
    assert told.keys() == fields.keys()
    for name, value in told.items():
        default = fields[name].default
        if value == "–":
            assert default in (None, dataclasses.MISSING), name
        elif value != "from the training examples":
            assert type(default)(value) == default, name


def test_every_recorded_quantity_is_described_and_no_other():
    with (ROOT / "results" / "reference" / "quick-e2e" / "results.csv").open(encoding="utf-8") as file:
        recorded = {row["metric"].removesuffix(TIMED) for row in csv.DictReader(file)}
    told = {name for cells in rows(MEASURING) for name in re.findall(r"`(\w+)`", cells[0])}
    assert told - METRICS.keys() - WORDS.keys() - recorded == set() and METRICS.keys() - told == set()
    elsewhere = {name for path in DOCS for c in rows(path.read_text()) for name in re.findall(r"`(\w+)`", c[0])}
    assert recorded - elsewhere == set()


def test_every_unit_is_told():
    assert all(len(cells) == 3 and cells[1] and cells[2] for cells in rows(MEASURING))
