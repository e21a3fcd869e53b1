"""The house: which room may import which. Read from the text of the code, imports inside functions included."""

import ast
from collections import defaultdict
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from harness.registry.imports import Code, find_module, imported

ROOT = Path(__file__).resolve().parents[1]
FLOORS = [  # from below; a room imports only from rooms below it, or beside it where that makes no circle
    {"errors", "hub", "progress"},
    {"backbone", "scoring", "results", "registry", "notation", "plain_text"},
    {"method", "task", "suite_entries", "suite", "reporting"},
    {"training", "decoding"},
    {"measuring", "tuning", "validate"},
    {"jobs"},
    {"runner"},
    {"executors"},
    {"commands"},
    {"cli"},
]
FLOOR = {room: number for number, rooms in enumerate(FLOORS) for room in rooms}
WITHOUT_TORCH = ("results", "reporting", "suite", "suite_entries", "method", "task", "registry", "notation")


def _modules(package: str) -> list[Code]:
    paths = (ROOT / package).rglob("*.py")
    return [
        Code(".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"), path) for path in paths
    ]


HARNESS = _modules("harness")


def _imports(code: Code) -> set[str]:
    """Modules of the harness that a file imports, each by the name of its own file."""
    names = {named.name for named in imported(code) if named.kind == "module" and named.name.startswith("harness.")}
    found = {one.module for name in names if (one := find_module(ROOT, name))}
    return {name for name in found if not any(other.startswith(f"{name}.") for other in found)} - {code.module}


def _room(module: str) -> str:
    return module.split(".")[1]


def test_every_room_has_its_floor():
    assert {_room(code.module) for code in HARNESS if code.module != "harness"} == set(FLOOR)


def test_rooms_import_downward_only():
    upward = [
        f"{code.module} -> {module}"
        for code in HARNESS
        if code.module != "harness"
        for module in _imports(code)
        if _room(module) != _room(code.module) and FLOOR[_room(module)] > FLOOR[_room(code.module)]
    ]
    assert not upward


def test_nothing_goes_round_in_circles():
    rooms, files = defaultdict(set), {}
    for code in HARNESS:
        if code.module != "harness":
            files[code.module] = _imports(code)
            rooms[_room(code.module)] |= {_room(m) for m in files[code.module]} - {_room(code.module)}
    for graph in (rooms, files):
        TopologicalSorter(graph).prepare()  # CycleError names the circle


def test_the_harness_names_no_method_and_no_task():
    named = {named.name for code in HARNESS for named in imported(code) if named.kind == "module"}
    assert not {name for name in named if name.split(".")[0] in ("methods", "tasks")}


@pytest.mark.parametrize("package", ["methods", "tasks", *(f"harness/{room}" for room in WITHOUT_TORCH)])
def test_torch_is_imported_late(package):
    codes = _modules(package) or _modules_of_file(package)
    assert codes
    early = [code.module for code in codes if "torch" in _at_the_top(ast.parse(code.path.read_text()))]
    assert not early


def _modules_of_file(path: str) -> list[Code]:
    return [code for code in HARNESS if code.path == ROOT / f"{path}.py"]


def _at_the_top(tree: ast.Module) -> set[str]:
    """First parts of the names of modules imported when a file is."""
    names = set()
    for node in tree.body:
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        if isinstance(node, ast.ImportFrom) and not node.level:
            names.add(node.module.split(".")[0])
    return names
