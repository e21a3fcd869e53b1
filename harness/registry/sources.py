"""Where names may come from, without importing any of it: built-in files and installed packages."""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import pkgutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import EntryPoint
from pathlib import Path

from ..errors import UsageError


@dataclass(frozen=True)
class Source:
    """One importable place that registers `name`; `load` raises whatever is wrong with it."""

    name: str
    label: str
    module: str
    load: Callable[[], object]


def builtin_sources(package_name: str, decorator: str) -> list[Source]:
    """A source for each name that a file of the package registers with the decorator."""
    package = importlib.import_module(package_name)
    sources = []
    for info in pkgutil.iter_modules(package.__path__):
        module = f"{package_name}.{info.name}"
        file = Path(package.__path__[0]) / f"{info.name}.py"
        for name in _registered_names(file, decorator):
            sources.append(Source(name, module, module, lambda module=module: importlib.import_module(module)))
    return sources


def _registered_names(file: Path, decorator: str) -> list[str]:
    """The names a file registers, read from its text so that listing costs no import."""
    if not file.is_file():
        return []
    try:
        tree = ast.parse(file.read_bytes())
    except SyntaxError:
        return [file.stem]  # importing it gives the reason
    calls = [d for node in tree.body if isinstance(node, ast.ClassDef) for d in node.decorator_list]
    return [
        call.args[0].value
        for call in calls
        if isinstance(call, ast.Call) and getattr(call.func, "id", "") == decorator and call.args
        if isinstance(call.args[0], ast.Constant)
    ]


def installed_sources(group: str) -> list[Source]:
    """A source for each entry point of the group; one that is malformed gives its reason when it is loaded."""
    return [_installed(point) for point in _entry_points(group)]


def _entry_points(group: str) -> list[EntryPoint]:
    try:
        return list(importlib.metadata.entry_points(group=group))
    except Exception:  # some package's list cannot be read; which, is seen one by one
        points = dict.fromkeys(point for one in importlib.metadata.distributions() for point in _points_of(one))
        return [point for point in points if point.group == group]


def _points_of(distribution: importlib.metadata.Distribution) -> Iterator[EntryPoint]:
    try:
        yield from distribution.entry_points
    except Exception:  # not even its names are known, and whether any of them is meant for us
        return


def _installed(point: EntryPoint) -> Source:
    try:
        label = f"{point.value} ({point.dist.name if point.dist else 'installed'})"
    except Exception:  # a package without metadata
        label = f"{point.value} (installed)"
    try:
        return Source(point.name, label, point.module, point.load)
    except Exception:  # importlib's own ways to say so differ between versions of Python
        return Source(point.name, label, "", lambda: _malformed(point))


def _malformed(point: EntryPoint) -> None:
    raise UsageError(
        f"its entry point {point.name} = {point.value!r} is malformed: it is written module:Class, and a module's name "
        "has letters, digits, underscores and dots"
    )
