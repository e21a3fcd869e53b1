"""Data sets on the Hugging Face hub: parquet files at a pinned revision.

A file is named in full (`hf://datasets/REPOSITORY@REVISION/PATH`) and read by the parquet reader, so a loading script
in the repository can never run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from harness.errors import SkipbenchError


class HubFile(NamedTuple):
    """Parquet files of one split: `path` may hold `*`; `rows` is the number of first rows taken (None: all)."""

    repository: str
    revision: str
    path: str
    rows: int | None = None

    @property
    def url(self) -> str:
        """The name `datasets` reads."""
        return f"hf://datasets/{self.repository}@{self.revision}/{self.path}"


def load(file: HubFile, split: str, task: str) -> Iterable[Mapping[str, object]]:
    """The rows of one split.

    Raises SkipbenchError if they cannot be had: falling back at this point could mix two sources in one run.
    """
    import datasets  # slow, so only once the hub has answered

    part = split if file.rows is None else f"{split}[:{file.rows}]"
    try:
        return datasets.load_dataset("parquet", data_files={split: file.url}, split=part)
    except Exception as error:
        raise SkipbenchError(
            f"task {task!r}: the hub answers but {file.url} cannot be loaded ({type(error).__name__}: {error}); "
            "put the data into a folder and name it with --data, or set HF_HUB_OFFLINE=1 to run on stand-ins"
        ) from error
