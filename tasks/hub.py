"""The Hugging Face hub as a source: parquet files at a pinned revision, and an answer at once when it is out of reach.

A file is named in full (`hf://datasets/REPO@REVISION/PATH`) and read by the parquet reader, so a loading script in the
repository can never run.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import NamedTuple

from harness.errors import SkipbenchError

PROBE_SECONDS = 3.0


class HubFile(NamedTuple):
    """Parquet files of one split: `path` may hold `*`."""

    repository: str
    revision: str
    path: str

    @property
    def url(self) -> str:
        """The name `datasets` reads."""
        return f"hf://datasets/{self.repository}@{self.revision}/{self.path}"


def answers() -> bool:
    """Whether the hub answers now. Decided in at most PROBE_SECONDS and once a process.

    HF_HUB_OFFLINE and HF_DATASETS_OFFLINE mean no, without trying.
    """
    flags = (os.environ.get(name, "").upper() for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"))
    if any(flag in {"1", "ON", "YES", "TRUE"} for flag in flags):
        return False
    return _probe(os.environ.get("HF_ENDPOINT", "https://huggingface.co"))


@lru_cache(maxsize=4)
def _probe(endpoint: str) -> bool:
    """One request, in a thread of its own because a name server can hang for longer than any socket time-out."""
    import urllib.request

    reached = threading.Event()

    def ask() -> None:
        try:
            urllib.request.urlopen(f"{endpoint}/api/datasets?limit=1", timeout=PROBE_SECONDS).close()
            reached.set()
        except Exception:  # whatever it is, the hub cannot be used
            return

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(PROBE_SECONDS)
    return reached.is_set()


def load(files: Mapping[str, HubFile], split: str, task: str) -> Iterable[Mapping[str, object]]:
    """The rows of one split.

    Raises SkipbenchError if they cannot be had: falling back now could mix two sources in one run.
    """
    import datasets

    file = files[split]
    try:
        return datasets.load_dataset("parquet", data_files={split: file.url}, split=split)
    except Exception as error:
        raise SkipbenchError(
            f"task {task!r}: the hub answers but {file.url} cannot be loaded ({type(error).__name__}: {error}); "
            "put the data into a folder and name it with --data, or set HF_HUB_OFFLINE=1 to run on stand-ins"
        ) from error
