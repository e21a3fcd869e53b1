"""A class's hash follows every file of its own that it is made of, and no other: results of older code never stand."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.registry import METHODS, TASKS, source_files, source_hash
from harness.registry.imports import Code, find_module, imported

ROOT = Path(__file__).resolve().parent.parent
METHOD = """
from __future__ import annotations
from dataclasses import dataclass
from typing import TYPE_CHECKING
from harness import LayerSchedule, load_method, register_method
{imports}
if TYPE_CHECKING:
    from {package}typed import Nothing

@register_method("{name}")
@dataclass(frozen=True)
class Mine(LayerSchedule):
    def layers(self, step):
        {inside}
        return range(2)
"""
PRINT = """
import sys
from harness.registry import METHODS, TASKS, load_plugin, source_hash
for path in sys.argv[2:]:
    load_plugin(path)
kind, name = sys.argv[1].split(":")
print(source_hash({"method": METHODS, "task": TASKS}[kind].load(name)), "torch" in sys.modules)
"""


def hash_of(name: str, *plugins: Path, path: Path | None = None) -> str:
    """In a process of its own, where everything is imported as it stands now."""
    paths = os.pathsep.join(map(str, [*([path] if path else []), ROOT]))
    command = [sys.executable, "-B", "-c", PRINT, name, *map(str, plugins)]
    environment = {**os.environ, "PYTHONPATH": paths}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=ROOT)
    found, torch = done.stdout.split() or pytest.fail(done.stderr)
    assert torch == "False"
    return found


def labels(cls: type) -> list[str]:
    return [code.label for code in source_files(cls)]


def package(folder: Path) -> Path:
    """An installed package: two methods, a helper of a helper, and files that the first does not import."""
    top = folder / "sbx_pack"
    (top / "deep").mkdir(parents=True)
    texts = {
        "__init__.py": "",
        "first.py": METHOD.format(
            name="sbx_first", package=".", imports="from .deep import helper", inside="from . import late"
        ),
        "other.py": METHOD.format(name="sbx_other", package=".", imports="", inside="pass"),
        "deep/__init__.py": "",
        "deep/helper.py": "from ..shared import VALUE\n",
        "shared.py": "VALUE = 1\n",
        "late.py": "VALUE = 1\n",
        "typed.py": "Nothing = None\n",
    }
    for name, text in texts.items():
        (top / name).write_text(text)
    (folder / "numpy_like.py").write_text("VALUE = 1\n")
    info = folder / "sbx_pack-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: sbx_pack\nVersion: 1.0\n")
    points = "[skipbench.methods]\nsbx_first = sbx_pack.first\nsbx_other = sbx_pack.other\n"
    (info / "entry_points.txt").write_text(points)
    return top


def test_an_installed_package(tmp_path):
    top = package(tmp_path)
    before = {name: hash_of(f"method:sbx_{name}", path=tmp_path) for name in ("first", "other")}
    for file in ("deep/helper.py", "shared.py", "late.py", "__init__.py"):
        text = (top / file).read_text()
        (top / file).write_text(text + "VALUE = 2\n")
        assert hash_of("method:sbx_first", path=tmp_path) != before["first"], file
        if file != "__init__.py":
            assert hash_of("method:sbx_other", path=tmp_path) == before["other"], file
        (top / file).write_text(text)
    (top / "typed.py").write_text("Nothing = 1\n")
    (tmp_path / "numpy_like.py").write_text("VALUE = 2\n")
    assert hash_of("method:sbx_first", path=tmp_path) == before["first"]


def test_a_plug_in_file_with_a_helper_beside_it_and_a_base_in_another_plug_in(tmp_path):
    helper = "import sys; sys.path.insert(0, __file__.rpartition('/')[0]); import sbx_helper"
    base, derived = tmp_path / "base.py", tmp_path / "derived.py"
    base.write_text(METHOD.format(name="sbx_base", package="sbx_", imports=helper, inside="pass"))
    inherits = "from harness.registry import METHODS; Base = METHODS.load('sbx_' + 'base')"
    text = METHOD.format(name="sbx_derived", package="sbx_", imports=inherits, inside="pass")
    derived.write_text(text.replace("(LayerSchedule)", "(Base)"))
    (tmp_path / "sbx_helper.py").write_text("VALUE = 1\n")
    (tmp_path / "unrelated.py").write_text("VALUE = 1\n")
    first = hash_of("method:sbx_derived", base, derived)
    (tmp_path / "unrelated.py").write_text("VALUE = 2\n")
    assert hash_of("method:sbx_derived", base, derived) == first
    (tmp_path / "sbx_helper.py").write_text("VALUE = 2\n")
    second = hash_of("method:sbx_derived", base, derived)
    base.write_text(base.read_text() + "\n")
    assert len({first, second, hash_of("method:sbx_derived", base, derived)}) == 3


def test_a_plug_in_that_builds_on_a_built_in(tmp_path):
    mine = tmp_path / "mine.py"
    mine.write_text("from harness import register_task\nfrom tasks.e2e import E2E\n\n"
                    "@register_task('sbx_mine')\nclass Mine(E2E):\n    pass\n")  # fmt: skip
    code = f"from harness.registry import *; load_plugin({str(mine)!r})\n"
    code += "print([c.label for c in source_files(TASKS.load('sbx_mine'))])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert "'mine.py'" in done.stdout and "'tasks/e2e.py'" in done.stdout and "'tasks/sources.py'" in done.stdout


def test_the_built_in_ones():
    assert labels(METHODS.load("random_skip")) == ["methods/random_skip.py", "methods/skipdecode.py"]
    assert labels(METHODS.load("calm")) == ["methods/calm.py"]
    common = ["tasks/__init__.py", "tasks/files.py", "tasks/floors.py", "tasks/hub.py", "tasks/sources.py"]
    for name in ("e2e", "cnn_dm", "reddit_tldr", "translation"):
        assert labels(TASKS.load(name)) == sorted([*common, f"tasks/{name}.py"])


def test_one_file_alone_is_hashed_as_its_bytes():
    import hashlib

    expected = hashlib.sha256((ROOT / "methods" / "full.py").read_bytes()).hexdigest()
    assert source_hash(METHODS.load("full")) == expected


@pytest.mark.parametrize(
    "text, names",
    [
        ("import a.b.c", {"a", "a.b", "a.b.c"}),
        ("from a.b import c, d", {"a", "a.b", "a.b.c", "a.b.d"}),
        ("from . import x", {"top", "top.in_", "top.in_.x"}),
        ("from ..y import x", {"top", "top.y", "top.y.x"}),
        ("from .... import x", set()),
        ("def f():\n    try:\n        import late\n    except ImportError:\n        import later", {"late", "later"}),
        ("import typing\nif typing.TYPE_CHECKING:\n    import no\nelse:\n    import yes", {"typing", "yes"}),
        ("harness.load_method('m', 4); load_task('t:de-en'); METHODS.load('n'); json.load('o'); load_method(name)",
         {"method m", "task t", "method n"}),
        ("def broken(:", set()),
        ("x = '\\0'", set()),
    ],
)  # fmt: skip
def test_what_a_file_imports(tmp_path, text, names):
    folder = tmp_path / "top" / "in_"
    folder.mkdir(parents=True)
    (folder / "one.py").write_text(text)
    found = imported(Code("top.in_.one", folder / "one.py"))
    assert {n.name if n.kind == "module" else f"{n.kind} {n.name}" for n in found} == names
    (folder / "__init__.py").write_text("from .one import x")
    assert {n.name for n in imported(Code("top.in_", folder / "__init__.py"))} == {
        "top", "top.in_", "top.in_.one", "top.in_.one.x"
    }  # fmt: skip


def test_a_file_that_python_did_not_import_is_not_meant(tmp_path):
    (tmp_path / "json.py").write_text("")
    (tmp_path / "time.py").write_text("")
    (tmp_path / "sbx_there.py").write_text("")
    assert find_module(tmp_path, "json") is None and find_module(tmp_path, "time") is None
    assert find_module(tmp_path, "sbx_there") == Code("sbx_there", tmp_path / "sbx_there.py")
