"""The real data, for tests that hold our numbers against published ones; without it they are skipped."""

import gzip
import json
import os
from pathlib import Path

import pytest

SIBLING = Path(__file__).resolve().parents[2] / "shared" / "data"


def real_data() -> Path:
    """The folder of the real data, from SKIPBENCH_DATA or beside the checkout; skips the test if there is none."""
    folder = Path(os.environ.get("SKIPBENCH_TEST_DATA") or SIBLING)  # SKIPBENCH_DATA, see conftest.py
    if not (folder / "e2e" / "test.jsonl.gz").is_file():
        pytest.skip("the real data is not here; name its folder in SKIPBENCH_DATA")
    return folder


def rows(name: str) -> list[dict]:
    """The rows of one of its files."""
    with gzip.open(real_data() / name, "rt", encoding="utf-8", newline="\n") as file:
        return [json.loads(line) for line in file]
