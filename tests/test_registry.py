"""Where methods and tasks come from: built-in files, plug-in files, installed packages; broken ones hurt nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from helpers.registries import forgotten_afterwards

from harness import load_method, register_method, validate_method
from harness.errors import UsageError
from harness.registry import METHODS, TASKS, Registry, load_plugin, source_file, source_hash

HERE = Path(__file__).parent

GOOD = """
from dataclasses import dataclass
from pathlib import Path

from harness import LayerSchedule, register_method

with Path(__file__).with_name("imported.txt").open("a") as log:
    log.write("x")


@register_method("{name}")
@dataclass(frozen=True)
class Thing(LayerSchedule):
    depth: int = 2

    def layers(self, step):
        return range(self.depth)
"""


@pytest.fixture(autouse=True)
def clean():
    with forgotten_afterwards():
        yield


def install(folder: Path, name: str, module: str, source: str, points: list[str]) -> None:
    """A fake installed distribution: one module and its dist-info with method entry points."""
    (folder / f"{module}.py").write_text(source)
    info = folder / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("\n".join(["[skipbench.methods]", *points]) + "\n")


@pytest.fixture
def site(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for module in [m for m in sys.modules if m.startswith("sbx_")]:
        del sys.modules[module]


def installed_registry() -> Registry:
    METHODS._sources = None  # look again
    return METHODS


# T39
def test_good_bad_and_duplicate_packages(site):
    install(site, "good", "sbx_good", GOOD.format(name="sbx_fine"), ["sbx_fine = sbx_good"])
    install(site, "bad", "sbx_bad", "raise RuntimeError('no GPU here\\nreally')", ["sbx_awful = sbx_bad:Awful"])
    install(site, "quitter", "sbx_quits", "raise SystemExit(4)", ["sbx_quits = sbx_quits"])
    install(site, "liar", "sbx_liar", GOOD.format(name="sbx_other"), ["sbx_promised = sbx_liar"])
    install(site, "thief", "sbx_thief", GOOD.format(name="full"), ["full = sbx_thief"])
    registry = installed_registry()
    assert {"sbx_fine", "sbx_awful", "full"} <= set(registry.names())
    assert not (site / "imported.txt").exists()  # listing imports nothing

    assert load_method("sbx_fine", num_layers=8, depth=3).plan(1) == [(0, 1, 2)]
    load_method("sbx_fine", num_layers=8)
    assert (site / "imported.txt").read_text() == "x"  # loaded once

    for name, reason in [("sbx_awful", "RuntimeError: no GPU here"), ("sbx_quits", "SystemExit: 4")]:
        for _ in range(2):
            with pytest.raises(UsageError, match=f"method '{name}' is broken: {reason}"):
                load_method(name, num_layers=8)
    with pytest.raises(UsageError, match="does not register 'sbx_promised'"):
        load_method("sbx_promised", num_layers=8)

    assert load_method("full", num_layers=3).plan(1) == [(0, 1, 2)]  # the built-in one
    assert METHODS.load("full").__module__ == "methods.full"
    assert any("full" in name and "already taken by methods.full" in why for name, why in registry.broken.items())
    classes = registry.load_all()
    assert {"full", "skipdecode", "sbx_fine"} <= set(classes)
    assert {"sbx_awful", "sbx_quits", "sbx_promised"} <= set(registry.broken) and not set(registry.broken) & set(
        classes
    )
    assert "sbx_awful" not in registry.names()


VALUES = ["my-package.methods:Mine", "", ":Mine", "sbx_fine:", "sbx_fine:Thing()", "a b", "sbx_fine [", "..:X"]


# T39
@pytest.mark.parametrize("value", VALUES)
def test_a_malformed_entry_point_is_listed_and_hurts_nothing_else(site, value):
    install(site, "good", "sbx_good", GOOD.format(name="sbx_fine"), ["sbx_fine = sbx_good", f"sbx_mine = {value}"])
    registry = installed_registry()
    assert {"sbx_fine", "full"} <= set(registry.names())
    assert "sbx_fine" in registry.load_all()
    assert value in registry.broken["sbx_mine"] or "Error" in registry.broken["sbx_mine"]
    with pytest.raises(UsageError, match="method 'sbx_mine' is broken: "):
        load_method("sbx_mine", num_layers=8)
    if value.startswith("my-package"):
        assert (
            "sbx_mine = 'my-package.methods:Mine' is malformed: it is written module:Class"
            in registry.broken["sbx_mine"]
        )


@pytest.mark.parametrize("lines", ["sbx_mine", "= sbx_good", "[skipbench.methods", "\xff"])
def test_an_unreadable_list_of_entry_points_hurts_no_other_package(site, lines):
    install(site, "good", "sbx_good", GOOD.format(name="sbx_fine"), ["sbx_fine = sbx_good"])
    install(site, "odd", "sbx_odd", "", [])
    path = site / "odd-1.0.dist-info" / "entry_points.txt"
    path.write_bytes(path.read_bytes() + lines.encode("latin-1") + b"\n")
    installed_registry()
    assert load_method("sbx_fine", num_layers=8).depth == 2
    assert METHODS.load("full").__module__ == "methods.full"


# T39
def test_a_package_that_would_replace_a_built_in_is_refused(site):
    install(site, "thief", "sbx_thief", GOOD.format(name="unified"), ["sbx_mine = sbx_thief"])
    installed_registry()
    with pytest.raises(UsageError, match="registered twice"):
        load_method("sbx_mine", num_layers=8)
    assert METHODS.load("unified").__module__ == "methods.unified"


def test_a_class_may_be_re_exported_by_its_package(site):
    package = site / "sbx_package"
    package.mkdir()
    (package / "inner.py").write_text(GOOD.format(name="sbx_inner"))
    install(site, "whole", "sbx_unused", "", ["sbx_inner = sbx_package:Thing"])
    (package / "__init__.py").write_text("from .inner import Thing")
    installed_registry()
    assert load_method("sbx_inner", num_layers=8).depth == 2


# T39
def test_a_plugin_file_is_loaded_once_and_by_its_own_path(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    for folder, name in (("a", "sbx_one"), ("b", "sbx_two")):
        (tmp_path / folder / "plug.py").write_text(GOOD.format(name=name))
    assert load_plugin(tmp_path / "a" / "plug.py") == load_plugin(str(tmp_path / "a" / "plug.py")) == ["sbx_one"]
    assert load_plugin(tmp_path / "b" / "plug.py") == ["sbx_two"]
    assert (tmp_path / "a" / "imported.txt").read_text() == "x"
    cls = METHODS.load("sbx_two")
    assert source_file(cls) == tmp_path / "b" / "plug.py"
    assert source_hash(cls) != source_hash(METHODS.load("sbx_one"))


def test_an_edited_plugin_file_is_loaded_anew_and_hashed_as_it_was_loaded(tmp_path):
    path = tmp_path / "plug.py"
    path.write_text(GOOD.format(name="sbx_one"))
    load_plugin(path)
    before = METHODS.load("sbx_one")
    first = source_hash(before)
    path.write_text(GOOD.format(name="sbx_two"))  # of the same length, within the same second
    assert source_hash(before) == first  # what was loaded, not what stands there by now
    assert load_plugin(path) == ["sbx_two"] and "sbx_one" not in METHODS.classes
    assert source_hash(METHODS.load("sbx_two")) != first
    path.write_text(GOOD.format(name="sbx_one"))
    assert load_plugin(path) == ["sbx_one"] and METHODS.load("sbx_one") is not before


@pytest.mark.parametrize(
    "text, message",
    [
        ("x = 1\n", "registers nothing"),
        ("def broken(:\n", "SyntaxError"),
        ("import no_such_package_at_all\n", "ModuleNotFoundError: No module named 'no_such_package_at_all'"),
        ("raise SystemExit(2)\n", "SystemExit: 2"),
        (GOOD.format(name="full"), "method 'full' is registered twice"),
        (GOOD.format(name="Full"), "a method name is lower-case letters"),
        (GOOD.format(name="sbx_half") + "\nraise ValueError('late')\n", "ValueError: late"),
    ],
)
def test_broken_plugin_files_say_why_and_leave_nothing(tmp_path, text, message):
    (tmp_path / "plug.py").write_text(text)
    before = set(METHODS.classes)
    for _ in range(2):
        with pytest.raises(UsageError) as caught:
            load_plugin(tmp_path / "plug.py")
        assert message in str(caught.value) and "plug.py" in str(caught.value)
    assert set(METHODS.classes) - before <= {"full"} and "sbx_half" not in METHODS.names()
    assert METHODS.load("full").__module__ == "methods.full"


def test_a_class_typed_in_has_no_source_to_hash():
    cell = {"__name__": "a_notebook"}
    exec("class Cell: pass", cell)
    for cls in (cell["Cell"], type("Typed", (), {"__module__": "builtins"})):
        with pytest.raises(UsageError, match="was written in no file.*load that as a plug-in"):
            source_hash(cls)


def test_missing_files_and_names(tmp_path):
    with pytest.raises(UsageError, match="no plug-in file at"):
        load_plugin(tmp_path / "none.py")
    (tmp_path / "plug.txt").write_text("x")
    with pytest.raises(UsageError, match=r"no Python file \(its name must end in .py\)"):
        load_plugin(tmp_path / "plug.txt")
    with pytest.raises(UsageError, match="unknown task 'e2"):
        TASKS.load("e2")
    with pytest.raises(UsageError, match="lower-case"):
        register_method("Two Words")


def test_names_are_free_for_one_class_each(tmp_path):
    for name in ("one", "two"):
        (tmp_path / f"{name}.py").write_text(GOOD.format(name="sbx_same"))
    load_plugin(tmp_path / "one.py")
    with pytest.raises(UsageError, match="'sbx_same' is registered twice"):
        load_plugin(tmp_path / "two.py")
    assert source_file(METHODS.load("sbx_same")).name == "one.py"


def test_listing_imports_no_method_and_no_torch():
    code = (
        "import sys; from harness.registry import METHODS, TASKS; names = METHODS.names() + TASKS.names();"
        "assert 'skipdecode' in names and 'e2e' in names, names;"
        "assert not {'torch', 'transformers', 'methods.full', 'tasks.e2e', 'pandas'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=HERE.parent)


def test_no_file_of_the_harness_names_a_method_or_task():
    for package in ("methods", "tasks"):
        for file in (HERE.parent / "harness").rglob("*.py"):
            text = file.read_text()
            assert f"import {package}" not in text and f"from {package}" not in text, file


# -- a real package, installed by pip --------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """The example package, installed by pip into a folder of its own; no network is needed."""
    pytest.importorskip("setuptools")
    folder = tmp_path_factory.mktemp("installed")
    shutil.copytree(HERE / "example_plugin", folder / "source")
    options = ["--no-deps", "--no-index", "--no-build-isolation", "--quiet", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "install", *options, "--target", str(folder / "site"), "./source"]
    subprocess.run(command, check=True, cwd=folder, capture_output=True, timeout=120)
    return folder / "site"


def test_an_installed_package_is_found(installed):
    code = """
import sys
from harness import load_method, load_task
from harness.registry import METHODS, TASKS
assert {"every_third", "patient_exit"} <= set(METHODS.names()) and "countdown" in TASKS.names()
assert "skipbench_example" not in sys.modules
assert load_method("every_third", num_layers=8).plan(1) == [(0, 3, 6, 7)]
task = load_task("countdown")
assert task.load("test")[0].references == ("70 69 68",) and task.source == "plug-in"
assert METHODS.broken == {} == TASKS.broken
assert load_method("patient_exit", num_layers=8).kv_policy == "propagate"
assert "torch" not in sys.modules
"""
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    command = [sys.executable, "-c", code]
    result = subprocess.run(command, cwd=HERE.parent, env=environment, capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr


def test_an_installed_method_keeps_the_contract(installed, monkeypatch):
    monkeypatch.syspath_prepend(str(installed))
    installed_registry()
    report = validate_method("every_third")
    assert report.ok, report
