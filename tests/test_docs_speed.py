"""The plug-in shown in docs/speed.md keeps the contract."""

import re
from pathlib import Path

from helpers.registries import forgotten_afterwards

from harness import validate_method
from harness.registry import load_plugin

TEXT = (Path(__file__).resolve().parent.parent / "docs" / "speed.md").read_text(encoding="utf-8")


def test_the_plug_in_of_the_page_is_valid(tmp_path):
    (code,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    (tmp_path / "half_draft.py").write_text(code)
    with forgotten_afterwards():
        assert load_plugin(tmp_path / "half_draft.py") == ["half_draft"]
        report = validate_method("half_draft")
        assert report.ok, report
        assert [note.split(",")[0].strip() for note in report.notes] == ["float32", "bfloat16"]
