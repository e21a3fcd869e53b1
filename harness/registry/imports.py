"""Which files of its own a file of Python imports, read from its text: what happens to be imported does not matter."""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

LOADERS = {"load_method": "method", "load_task": "task"}  # called with a name in quotes they import by name
REGISTRIES = {"METHODS": "method", "TASKS": "task"}  # likewise their `load`


@dataclass(frozen=True)
class Code:
    """The file of a module, by its full name."""

    module: str
    path: Path

    @property
    def root(self) -> Path:
        """The folder in which the first part of the module's name lies."""
        depth = self.module.count(".") + (self.path.name == "__init__.py")
        return self.path.parents[min(depth, len(self.path.parents) - 1)]

    @property
    def label(self) -> str:
        """Which of the files of its root it is."""
        return self.path.relative_to(self.root).as_posix()


@dataclass(frozen=True)
class Named:
    """Something imported by a name: a `module`, or a `method` or `task` of the registry."""

    kind: str
    name: str


def closure(
    starts: Iterable[Code], find: Callable[[Code, Named], Code | None], without: Sequence[str] = ()
) -> list[Code]:
    """The files and all that they import, and so on, as far as `find` knows them; in a fixed order.

    Modules and packages `without` are passed over.
    """
    waiting = list(starts)
    found = {code.path: code for code in waiting}
    while waiting:
        code = waiting.pop()
        for named in sorted(imported(code), key=repr):
            if any(f"{named.name}.".startswith(f"{module}.") for module in without):
                continue
            other = find(code, named)
            if other is not None and other.path not in found:
                found[other.path] = other
                waiting.append(other)
    return sorted(found.values(), key=lambda code: (code.label, code.module))


def find_module(root: Path, module: str) -> Code | None:
    """A module whose file lies under a folder; None if there is none, or Python has taken another of that name."""
    place = root.joinpath(*module.split("."))
    path = next((p for p in (place / "__init__.py", place.with_name(f"{place.name}.py")) if p.is_file()), None)
    loaded = sys.modules.get(module)
    if path is None or (loaded is not None and not _is_file_of(loaded, path)):
        return None
    return Code(module, path)


def _is_file_of(module: object, path: Path) -> bool:
    file = getattr(module, "__file__", None)
    return file is not None and Path(file).resolve() == path.resolve()


@cache
def imported(code: Code) -> frozenset[Named]:
    """What a file imports, anywhere in it but for type checkers alone; each package above a module is imported too."""
    try:
        tree = ast.parse(code.path.read_bytes())
    except (OSError, SyntaxError, ValueError):  # it cannot be imported either
        return frozenset()
    return frozenset(named for node in _run(tree) for named in _imports(code, node))


def _imports(code: Code, node: ast.AST) -> Iterator[Named]:
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield from _with_parents(alias.name)
    elif isinstance(node, ast.ImportFrom):
        base = _absolute(code, node)
        if base:
            yield from _with_parents(base)
            yield from (Named("module", f"{base}.{alias.name}") for alias in node.names)
    elif isinstance(node, ast.Call):
        yield from _loaded(node)


def _run(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes but those under `if TYPE_CHECKING`."""
    yield node
    unread = node.body if isinstance(node, ast.If) and _words(node.test)[-1:] == ["TYPE_CHECKING"] else []
    for child in ast.iter_child_nodes(node):
        if child not in unread:
            yield from _run(child)


def _with_parents(module: str) -> Iterator[Named]:
    parts = module.split(".")
    yield from (Named("module", ".".join(parts[:depth])) for depth in range(1, len(parts) + 1))


def _absolute(code: Code, node: ast.ImportFrom) -> str | None:
    """The full name of what is imported from; None for a relative import that leads out of its package."""
    if not node.level:
        return node.module
    parts = code.module.split(".")
    here = parts if code.path.name == "__init__.py" else parts[:-1]
    above = here[: len(here) - node.level + 1]
    return ".".join([*above, *filter(None, [node.module])]) if len(here) >= node.level else None


def _loaded(call: ast.Call) -> Iterator[Named]:
    first = call.args[0] if call.args else None
    if not (isinstance(first, ast.Constant) and isinstance(first.value, str)):
        return
    *before, last = ["", *_words(call.func)]
    kind = REGISTRIES.get(before[-1]) if last == "load" and before else LOADERS.get(last)
    if kind:
        yield Named(kind, first.value.partition(":")[0])


def _words(node: ast.AST) -> list[str]:
    """`harness.registry.METHODS` in its parts; of anything else what can be said."""
    if isinstance(node, ast.Attribute):
        return [*_words(node.value), node.attr]
    return [node.id] if isinstance(node, ast.Name) else []
