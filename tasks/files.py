"""Data files of tasks: JSON Lines (plain or gzip) and CSV, their checksums, and errors that name file and row."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path

from harness.errors import UsageError

SUFFIXES = (".jsonl.gz", ".jsonl", ".csv")
SHA256_TABLE = Path(__file__).with_name("sha256.txt")

Row = Mapping[str, object]


def read_rows(path: Path, columns: Sequence[str], target: str) -> list[Row]:
    """The rows of a data file, each with text in `columns` and text or a list of texts in `target`.

    A name `a|b` asks for a column of either name, `a_*` for one or more whose names start with `a_`.

    Raises UsageError naming the file, the row (counted from 1; in a CSV file the header is not counted) and what to do.
    A file whose checksum is known (see `known_sha256`) must have exactly that content.
    """
    check_sha256(path)
    read = _csv_rows if path.name.endswith(".csv") else _jsonl_rows
    rows = list(read(path, _text(path)))
    if not rows:
        wanted = column_names([*columns, target])
        raise UsageError(f"data file {path} holds no rows; put at least one there, with the columns {wanted}")
    for number, row in enumerate(rows, start=1):
        _check_row(path, number, row, columns, target)
    return rows


def check_sha256(path: Path) -> None:
    """Refuse a file of a known name whose content is not the known one."""
    expected = known_sha256(path)
    if expected is None:
        return
    found = file_sha256(path)
    if found != expected:
        raise UsageError(
            f"data file {path} is damaged or changed: its SHA-256 is {found[:16]}…, not {expected[:16]}…; fetch it "
            f"again, or, if it is data of your own, store it as {path.name.removesuffix('.gz')} (not compressed)"
        )


def known_sha256(path: Path) -> str | None:
    """The checksum a compressed file FOLDER/NAME must have, if there is one. Plain files are the user's own."""
    return _sha256_table().get(f"{path.parent.name}/{path.name}")


def file_sha256(path: Path) -> str:
    """SHA-256 of a file's bytes."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@lru_cache(maxsize=1)
def _sha256_table() -> dict[str, str]:
    lines = SHA256_TABLE.read_text(encoding="utf-8").splitlines()
    return {name: digest for digest, name in (line.split() for line in lines if line.strip())}


def _text(path: Path) -> str:
    try:
        data = path.read_bytes()
        data = gzip.decompress(data) if path.name.endswith(".gz") else data
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        row = data.count(b"\n", 0, error.start) + 1
        raise UsageError(f"data file {path}, line {row}: not UTF-8 text; save the file as UTF-8") from error
    except (OSError, EOFError, gzip.zlib.error) as error:
        raise UsageError(f"data file {path} cannot be read ({error or 'cut short'}); fetch it again") from error


def _jsonl_rows(path: Path, text: str) -> Iterator[Row]:
    number = 0
    for line in text.split("\n"):  # not splitlines(): a JSON string may hold U+2028
        if not line.strip():
            continue
        number += 1
        try:
            row = json.loads(line, object_pairs_hook=_without_doubles)
        except (ValueError, RecursionError) as error:  # the decoder's own, numbers too long, nesting too deep
            reason = getattr(error, "msg", error)
            raise UsageError(f"data file {path}, row {number}: not valid JSON ({reason}); mend that line") from error
        if not isinstance(row, dict):
            raise UsageError(f"data file {path}, row {number}: a row must be a JSON object, not {type(row).__name__}")
        yield row


def _without_doubles(pairs: list[tuple[str, object]]) -> dict[str, object]:
    row = dict(pairs)
    if len(row) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"it names {twice!r} twice")
    return row


def _csv_rows(path: Path, text: str) -> Iterator[Row]:
    csv.field_size_limit(max(csv.field_size_limit(), 1 << 24))  # news articles exceed the default
    reader = csv.DictReader(io.StringIO(text, newline=""), strict=True)
    try:
        header = reader.fieldnames or []
        if len(set(header)) != len(header):
            twice = next(name for name in header if header.count(name) > 1)
            raise UsageError(f"data file {path}: its header names column {twice!r} twice; give every column one name")
        for number, row in enumerate(reader, start=1):
            if None in row or None in row.values():
                raise UsageError(
                    f"data file {path}, row {number}: the number of cells differs from the header's "
                    f"{len(header)}; quote cells that hold commas or line breaks"
                )
            yield row
    except csv.Error as error:
        raise UsageError(f"data file {path}, line {reader.line_num}: not valid CSV ({error})") from error


def _check_row(path: Path, number: int, row: Row, columns: Sequence[str], target: str) -> None:
    wanted = [*columns, target]
    for column in wanted:
        names = matching(row, column)
        if not names:
            raise UsageError(
                f"data file {path}, row {number}: no column {column_names([column])}; it has {column_names(row)}, "
                f"needed are {column_names(wanted)}"
            )
        for name in names:
            _check_cell(f"data file {path}, row {number}: column {name!r}", row[name], listed=column == target)
    if not texts(row, target):
        raise UsageError(
            f"data file {path}, row {number}: {column_names([target])} holds no text, so there is no reference to "
            "train on or to score against; fill it or leave the row out"
        )


def _check_cell(where: str, value: object, listed: bool) -> None:
    items = value if listed and isinstance(value, list) and value else [value]
    if not all(isinstance(item, str) for item in items):
        kind = "text or a list of texts" if listed else "text"
        raise UsageError(f"{where} must be {kind}, not {value!r:.40}")
    if not all(item.isascii() or _is_unicode(item) for item in items):
        raise UsageError(f"{where} holds half a surrogate pair, which is no text; mend that cell")


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def matching(row: Row, column: str) -> list[str]:
    """The columns a name such as `a|b` or `a|a_*` asks for: those of its first part that the row has."""
    for part in column.split("|"):
        start = part.removesuffix("*")
        found = [part] if part in row else sorted(n for n in row if n.startswith(start)) if start != part else []
        if found:
            return found
    return []


def texts(row: Row, column: str) -> tuple[str, ...]:
    """The references of a row: one text or a list of them, in one column or several. A blank one is none: it would be
    the shortest, and take away the brevity penalty."""
    cells = (row[name] for name in matching(row, column))
    return tuple(text for cell in cells for text in (cell if isinstance(cell, list) else [cell]) if text.strip())


def column_names(columns: Iterable[str]) -> str:
    """Columns as errors show them; `a|b` stands for either."""
    return ", ".join(" or ".join(map(repr, column.split("|"))) for column in columns) or "none"
