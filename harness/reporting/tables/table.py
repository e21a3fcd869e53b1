"""A table once, written three ways: Markdown, LaTeX (booktabs) and CSV."""

from __future__ import annotations

import csv
import io
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass, field

from ..points import Value
from ..words import FLAGGED, MISSING, merged_flags, metric, with_interval


@dataclass(frozen=True)
class Cell:
    """What stands in one place: a text, or a metric's value. `best` is printed in bold."""

    text: str = MISSING
    value: Value | None = None
    name: str = ""
    best: bool = False

    @property
    def shown(self) -> str:
        """The text for people."""
        return self.text if self.value is None else with_interval(self.value, self.name)


@dataclass(frozen=True)
class Column:
    """A column: its heading, and the metric it shows ("" for words)."""

    heading: str
    name: str = ""


@dataclass(frozen=True)
class Table:
    """Columns and rows with a title, a note under it, and for each row the keys a reader may filter by."""

    id: str
    title: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    note: str = ""
    keys: Sequence[dict] = field(default_factory=list)

    def markdown(self) -> str:
        """A Markdown table under its title."""
        lines = [f"**{self.title}**", "", _md_row(c.heading for c in self.columns)]
        lines.append(_md_row("---:" if c.name else "---" for c in self.columns))
        lines += [_md_row(_md_cell(cell) for cell in row) for row in self.rows]
        return "\n".join([*lines, "", *([self.footnote, ""] if self.footnote else [])])

    @property
    def footnote(self) -> str:
        """The note, what the marks at flagged values mean, and why others are missing."""
        cells = [c for row in self.rows for c in row]
        flags = merged_flags(c.value.flag for c in cells if c.value and c.value.flag)
        notes = merged_flags(c.value.note for c in cells if c.value is not None and not c.value and c.value.note)
        marks = [*(f"{FLAGGED} {flag}." for flag in flags), *(f"{MISSING} {note}." for note in notes)]
        return " ".join(filter(None, [self.note, *marks]))

    def latex(self) -> str:
        """A table environment that shrinks to the line; needs the packages booktabs and graphicx."""
        spec = "".join("r" if c.name else "l" for c in self.columns)
        body = [" & ".join(_tex_cell(cell) for cell in row) + r" \\" for row in self.rows]
        head = " & ".join(_tex_stack(textwrap.wrap(c.heading, 10), c) for c in self.columns) + r" \\"
        note = [r"\par\smallskip\footnotesize " + tex(self.footnote)] if self.footnote else []
        fit = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}{%"
        return "\n".join(
            [r"% needs \usepackage{booktabs,graphicx}", r"\begin{table}", r"\centering\small"]
            + [rf"\caption{{{tex(self.title)}}}", fit, rf"\begin{{tabular}}{{{spec}}}", r"\toprule", head, r"\midrule"]
            + [*body, r"\bottomrule", r"\end{tabular}}", *note, r"\end{table}", ""]
        )

    def csv(self) -> str:
        """The numbers with all their digits; a value's bounds stand in columns of their own."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        writer.writerow([h for c in self.columns for h in _csv_heads(c)])
        writer.writerows([v for c, cell in zip(self.columns, row, strict=True) for v in _csv_cells(c, cell)]
                         for row in self.rows)  # fmt: skip
        return out.getvalue()


def mark_best(table_rows: list[list[Cell]], groups: Sequence[object]) -> list[list[Cell]]:
    """Mark the best value of each metric column within each group of rows; a group of None takes no part.

    Where all are equal, or a row is alone in its group, none is marked.
    """
    rows = [list(row) for row in table_rows]
    for group in {g for g in groups if g is not None}:
        members = [i for i, g in enumerate(groups) if g == group]
        for column in range(len(rows[0])) if len(members) > 1 else ():
            _mark_column(rows, members, column)
    return rows


def _mark_column(rows: list[list[Cell]], members: Sequence[int], column: int) -> None:
    cells = {i: rows[i][column] for i in members if rows[i][column].value}
    way = metric(next(iter(cells.values())).name).better if cells else 0
    top = max((way * cell.value.value for cell in cells.values()), default=0)
    if not way or all(way * cell.value.value == top for cell in cells.values()):
        return
    for i, cell in cells.items():
        if way * cell.value.value == top:
            rows[i][column] = Cell(cell.text, cell.value, cell.name, True)


def _md_row(cells) -> str:
    return "| " + " | ".join(cells) + " |"


def _md_cell(cell: Cell) -> str:
    text = cell.shown.replace("|", "\\|").replace("\n", " ")
    return f"**{text}**" if cell.best else text


TEX = {
    **{"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "–": "--", "−": "$-$"},
    **{"·": r"$\cdot$", "×": r"$\times$", "≥": r"$\ge$", "≤": r"$\le$", "±": r"$\pm$", "…": r"\dots{}"},
    **{"[": "{[}", "]": "{]}", "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}"},
    **{c: "\\" + c for c in "&%$#_{}"},
    **{"“": "``", "”": "''", "’": "'", "→": r"$\to$", "δ": r"$\delta$", "ε": r"$\varepsilon$", "λ": r"$\lambda$"},
    **{"†": r"$\dagger$", "τ": r"$\tau$", "γ": r"$\gamma$"},
}


def tex(text: str) -> str:
    """`text` with everything escaped that LaTeX would take for a command."""
    return "".join(TEX.get(c, c) for c in text.replace("\n", " "))


def _tex_cell(cell: Cell) -> str:
    """The number, bold if it is the best, and its interval under it in small print: wide tables must stay legible."""
    number, _, interval = cell.shown.partition(" ") if cell.value else (cell.shown, "", "")
    text = rf"\textbf{{{tex(number)}}}" if cell.best else tex(number)
    return rf"\shortstack[r]{{{text}\\{{\tiny {tex(interval)}}}}}" if interval else text


def _tex_stack(lines: Sequence[str], column: Column) -> str:
    """Short lines one above the other: long headings are what makes a table wide."""
    text = r"\\".join(map(tex, lines))
    return rf"\shortstack[{'r' if column.name else 'l'}]{{{text}}}" if len(lines) > 1 else text


def _csv_heads(column: Column) -> list[str]:
    if not column.name:
        return [column.heading]
    return [column.heading, f"{column.heading} low", f"{column.heading} high"]


def _csv_cells(column: Column, cell: Cell) -> list[str]:
    if not column.name:
        return [cell.shown]
    value = cell.value or Value()
    return ["" if v is None else repr(v) for v in (value.value, value.low, value.high)]
