"""Where a task's examples come from: a local folder, then the hub, then a seeded stand-in.

Looked at in this order, the first that has the task's files wins and serves every split:

1. `--data` (a folder or one file). If given, it must have them; anything else is an error. `--data stand-in` asks for
   the stand-in, whatever else there is.
2. `$SKIPBENCH_DATA`. It must exist; a folder without this task's part is passed over.
3. `data/` in the checkout.
4. The Hugging Face hub, if it answers within seconds.
5. The stand-in.

A folder holds the task's files in a sub-folder (`DIR/e2e/test.jsonl.gz`) or, for `--data`, directly (`DIR/test.csv`).
One single file is cut into train (80 %), validation (10 %) and test (10 %), in its order.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import ClassVar

from harness import Example, Task
from harness.errors import UsageError, unknown
from harness.hub import hub_answers
from harness.task import hash_examples

from . import hub
from .files import SUFFIXES, Row, check_sha256, column_names, file_sha256, matching, read_rows
from .floors import most_frequent_reference

CHECKOUT_DATA = Path(__file__).resolve().parent.parent / "data"
STAND_IN = "stand-in"
STAND_INS = Path(__file__).resolve().parent / "stand_ins"
MOST_FREQUENT = "most frequent reference"
SPLITS = ("train", "validation", "test")


class SourcedTask(Task):
    """A task with local, hub and stand-in sources. Subclasses name their files and columns and build the examples."""

    folder: ClassVar[str]  # sub-folder of the data folder
    columns: ClassVar[tuple[str, ...]]  # every row must have text in these
    target: ClassVar[str]  # and a reference, or a list of them, in this one; `a|b` allows two names
    prompt_template: ClassVar[str]  # str.format over an example's fields
    hub_files: ClassVar[dict[str, hub.HubFile]] = {}  # split -> where it is on the hub
    data_modules = (f"{__package__}.{STAND_INS.name}",)  # `data_hash` knows them
    floors: ClassVar[dict[str, Callable[[Example], str]]] = {}  # trivial outputs, see `floor_outputs`

    def __init__(self, data: str | Path | None = None, variant: str | None = None) -> None:
        super().__init__(data, variant)
        self._place: Path | str | None = None
        self._splits: dict[str, list[Example]] = {}

    @property
    def source(self) -> str:
        """`local`, `hub` or `stand-in`."""
        return "local" if isinstance(self.place, Path) else self.place

    @property
    def place(self) -> Path | str:
        """The local folder or file, or `hub`, or `stand-in`: decided once, so that all splits have one source."""
        if self._place is None:
            local = STAND_IN if self.data == Path(STAND_IN) else find_local(self)
            self._place = local or ("hub" if self.hub_files and hub_answers() else STAND_IN)
        return self._place

    @property
    def splits(self) -> tuple[str, ...]:
        """Names `load` takes."""
        return SPLITS

    def load(self, split: str) -> Sequence[Example]:
        """The examples of a split, in the file's order. Raises UsageError for a bad file, naming file and row."""
        self._check_split(split)
        if split not in self._splits:
            self._splits[split] = self._load(split)
        return self._splits[split]

    def _check_split(self, split: str) -> None:
        if split not in self.splits:
            raise unknown(f"split of {self.label}", split, self.splits)

    def prompt(self, example: Example) -> str:
        """The text a model continues."""
        return self.prompt_template.format_map(example.fields)

    def data_hash(self, split: str) -> str:
        """SHA-256 that changes whenever the examples of the split may: of the bytes of local files, of the generator's
        code for our own stand-ins, else of the examples.
        """
        if self.place == STAND_IN and type(self).__module__.startswith(f"{__package__}."):
            self._check_split(split)
            return generator_hash(type(self), f"{self.label} {split}")
        if not isinstance(self.place, Path):
            return hash_examples(self.load(split))
        digest = hashlib.sha256(f"{self.label} {split}".encode())
        for path in self.local_files(split):
            check_sha256(path)
            digest.update(file_sha256(path).encode())
        return digest.hexdigest()

    def examples(self, rows: Iterable[Row]) -> list[Example]:
        """Examples of one split from its rows."""
        raise NotImplementedError

    def stand_in(self, split: str) -> list[Row]:
        """Seeded rows of our own, with the same columns as a data file."""
        raise NotImplementedError

    def stems(self, split: str) -> tuple[str, ...]:
        """Names, without suffix, of the files that make up a split in the local data set."""
        return (split,)

    def local_files(self, split: str) -> list[Path]:
        """The local files behind a split; UsageError naming what to put where if there are none."""
        if self.place.is_file():
            return [self.place]
        found = split_files(self, self.place, split)
        if found is None:
            raise UsageError(
                f"task {self.label!r}: {self.place} has no file for split {split!r}; put "
                f"{' and '.join(self.stems(split))} ({', '.join(SUFFIXES)}) there, with the columns "
                f"{column_names([*self.columns, self.target])}"
            )
        return found

    @property
    def floor_names(self) -> tuple[str, ...]:
        """The task's own floors, and the most frequent training reference."""
        return (*self.floors, MOST_FREQUENT)

    def floor_outputs(self, split: str) -> dict[str, list[str]]:
        """Trivial outputs by floor name, one for each example of the split: a method must beat their scores."""
        examples = self.load(split)
        outputs = {name: [make(example) for example in examples] for name, make in self.floors.items()}
        outputs[MOST_FREQUENT] = [most_frequent_reference(self.load("train"))] * len(examples)
        return outputs

    def _load(self, split: str) -> list[Example]:
        if self.place == "hub":
            return self.examples(self._hub_rows(split))
        if self.place == STAND_IN:
            return self.examples(self.stand_in(split))
        files = self.local_files(split)
        examples = self.examples([row for path in files for row in read_rows(path, self.columns, self.target)])
        return _part(examples, split, files[0]) if self.place.is_file() else examples

    def from_hub(self, rows: Iterable[Row]) -> Iterable[Row]:
        """Rows of the hub's data set with our columns; one for each, or it is of another form than the task knows."""
        return rows

    def _hub_rows(self, split: str) -> Iterator[Row]:
        """The rows of `from_hub`, none lost: ids are row numbers. Raises UsageError naming a row of another form."""
        file = self.hub_files[split]
        for number, row in enumerate(hub.load(file, split, self.label)):
            ours = self._hub_row(row)
            if ours is None:
                raise UsageError(
                    f"task {self.label!r}: row {number} of {file.url} is of another form than the task knows: "
                    f"{row!r:.80}; name a folder with the data by --data, or run on --data stand-in"
                )
            yield ours

    def _hub_row(self, row: Row) -> Row | None:
        """One row with our columns; None if the task makes nothing, or something else, of it."""
        try:
            (ours,) = self.from_hub([row])
            return ours if all(matching(ours, column) for column in (*self.columns, self.target)) else None
        except (ValueError, KeyError, TypeError, AttributeError):
            return None


@cache
def generator_hash(cls: type, what: str) -> str:
    """SHA-256 of the code behind a task's seeded stand-ins, and of Python's version, whose draws they use."""
    digest = hashlib.sha256(f"{what} {sys.version_info[:2]}".encode())
    for path in [Path(sys.modules[cls.__module__].__file__), *sorted(STAND_INS.glob("*.py"))]:
        digest.update(file_sha256(path).encode())
    return digest.hexdigest()


def find_local(task: SourcedTask) -> Path | None:
    """The local folder or file that holds the task's data, or None. See the module's text for the order."""
    if task.data is not None:
        return _given(task, task.data)
    named = os.environ.get("SKIPBENCH_DATA")
    if named and not Path(named).is_dir():
        raise UsageError(f"SKIPBENCH_DATA names {named!r}, which is no folder; correct or unset it")
    roots = [Path(named)] if named else []
    for root in [*roots, CHECKOUT_DATA]:
        if _holds(task, root / task.folder):
            return root / task.folder
    return None


def _given(task: SourcedTask, data: Path) -> Path:
    if data.is_file() and data.name.endswith(SUFFIXES):
        return data
    for folder in (data / task.folder, data):
        if _holds(task, folder):
            return folder
    single = [path for path in sorted(data.glob("*")) if path.name.endswith(SUFFIXES)] if data.is_dir() else []
    if len(single) == 1:
        return single[0]
    names = ", ".join(f"{stem}.jsonl" for split in SPLITS for stem in task.stems(split))
    problem = "has no data for" if data.exists() else "does not exist, so there is no data for"
    raise UsageError(
        f"--data {data} {problem} task {task.label!r}; put {names} (or .jsonl.gz, .csv) into {data / task.folder} or "
        f"{data}, with the columns {column_names([*task.columns, task.target])}"
    )


def _holds(task: SourcedTask, folder: Path) -> bool:
    return any(split_files(task, folder, split) for split in task.splits)


def split_files(task: SourcedTask, folder: Path, split: str) -> list[Path] | None:
    """The files of a split in a folder: those of the local data set, else one named after the split; or None."""
    for stems in (task.stems(split), (split,)):
        found = [_with_suffix(folder, stem) for stem in stems]
        if all(found):
            return found
    return None


def _with_suffix(folder: Path, stem: str) -> Path | None:
    paths = (folder / f"{stem}{suffix}" for suffix in SUFFIXES)
    return next((path for path in paths if path.is_file()), None)


def _part(examples: list[Example], split: str, path: Path) -> list[Example]:
    if split not in SPLITS:
        raise UsageError(f"data file {path} alone is cut into {', '.join(SPLITS)}; it has no split {split!r}")
    tenth = len(examples) // 10
    if tenth == 0:
        raise UsageError(f"data file {path} has {len(examples)} examples; cutting it into splits needs at least 10")
    parts = {"train": slice(0, -2 * tenth), "validation": slice(-2 * tenth, -tenth), "test": slice(-tenth, None)}
    return examples[parts[split]]
