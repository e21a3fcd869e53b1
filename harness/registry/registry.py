"""Where methods and tasks are found: built-in files, plug-in files and installed packages.

Nothing here names a method or a task. A built-in is a file of the package `methods` or `tasks`; an installed package
registers through the entry-point groups `skipbench.methods` and `skipbench.tasks`; `--plugin FILE` adds one file.
Everything is imported on demand and once. A source that cannot be imported is listed as broken, with its reason, and
hurts nothing else.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from ..errors import UsageError, unknown
from .imports import Code, Named, closure, find_module
from .sources import Source, builtin_sources, installed_sources


@dataclass
class Registry:
    """Names of one kind (`method` or `task`) and the classes behind them."""

    kind: str
    package: str  # built-in package, one file a name
    group: str  # entry-point group of installed packages
    classes: dict[str, type] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)
    _sources: dict[str, Source] | None = None

    def register(self, name: str) -> Callable[[type], type]:
        """Class decorator: make the class known as `name`. A name already taken by another class is refused."""
        if not isinstance(name, str) or not name.replace("_", "a").isalnum() or name != name.lower():
            raise UsageError(f"a {self.kind} name is lower-case letters, digits and underscores, not {name!r}")

        def add(cls: type) -> type:
            taken = self.classes.get(name)
            if taken is not None and _origin(taken) != _origin(cls):
                raise UsageError(f"{self.kind} {name!r} is registered twice: {_origin(taken)} and {_origin(cls)}")
            if taken is None and name in self.sources() and cls.__module__ != f"{self.package}.{name}":
                self._check_not_shadowing(name, cls)
            self.classes[name] = cls
            cls.name = name
            return cls

        return add

    def _check_not_shadowing(self, name: str, cls: type) -> None:
        entry = self.sources()[name]
        ours = entry.module.startswith(f"{self.package}.")
        if entry.module != cls.__module__ and (ours or _top_package(entry.module) != _top_package(cls.__module__)):
            raise UsageError(f"{self.kind} {name!r} is registered twice: {_origin(cls)} would replace {entry.label}")

    def sources(self) -> dict[str, Source]:
        """Everything importable by name, without importing it."""
        if self._sources is None:
            self._sources = {}
            for source in [*builtin_sources(self.package, f"register_{self.kind}"), *installed_sources(self.group)]:
                if source.name in self._sources:
                    label = self._sources[source.name].label
                    self.broken[f"{source.name} ({source.label})"] = f"the name is already taken by {label}"
                else:
                    self._sources[source.name] = source
        return self._sources

    def load(self, name: str) -> type:
        """The class registered as `name`; imports its source at the first call."""
        if not isinstance(name, str):
            raise unknown(self.kind, name, self.names())
        if name not in self.classes and name in self.sources():
            self._import(name)
        if name in self.classes:
            return self.classes[name]
        if name in self.broken:
            raise UsageError(f"{self.kind} {name!r} is broken: {self.broken[name]}")
        raise unknown(self.kind, name, self.names())

    def _import(self, name: str) -> None:
        if name in self.broken:
            return
        source = self.sources()[name]
        try:
            source.load()
            if name not in self.classes:
                raise UsageError(f"{source.label} does not register {name!r}")
        except (Exception, SystemExit) as error:  # a plug-in may raise anything; it must hurt nothing else
            self.classes.pop(name, None)
            self.broken[name] = f"{type(error).__name__}: {error}".splitlines()[0]

    def names(self) -> list[str]:
        """Every usable or possibly usable name, without importing anything."""
        return sorted({*self.classes, *self.sources()} - set(self.broken))

    def load_all(self) -> dict[str, type]:
        """Import every source; what fails lands in `broken`."""
        for name in self.sources():
            if name not in self.classes:
                self._import(name)
        return dict(sorted(self.classes.items()))


plugin_files: list[Path] = []  # loaded in this process, for those who start others
_plugin_hashes: dict[str, str] = {}  # by module
METHODS = Registry("method", "methods", "skipbench.methods")
TASKS = Registry("task", "tasks", "skipbench.tasks")


def register_method(name: str) -> Callable[[type], type]:
    """Class decorator that makes a method plug-in known as `name`."""
    return METHODS.register(name)


def register_task(name: str) -> Callable[[type], type]:
    """Class decorator that makes a task known as `name`."""
    return TASKS.register(name)


def load_plugin(path: str | Path) -> list[str]:
    """Import one plug-in file; returns the names it registered. Loading the same bytes again does nothing.

    Raises UsageError if the file is missing, cannot be imported or registers nothing.
    """
    path = Path(path).resolve()
    if not path.is_file():
        raise UsageError(f"no plug-in file at {path}")
    code = path.read_bytes()
    start = f"skipbench_plugin_{path.stem.replace('.', '_')}_{_sha256(str(path).encode())[:8]}_"
    module_name = start + _sha256(code)[:16]
    if module_name not in sys.modules:
        _forget([name for name in sys.modules if name.startswith(start)])  # the same file before it was edited
        _import_file(path, module_name, code)
    registries = (METHODS, TASKS)
    names = [name for r in registries for name, cls in r.classes.items() if cls.__module__ == module_name]
    if not names:
        raise UsageError(f"plug-in {path} registers nothing; decorate a class with @register_method or @register_task")
    return names


def _import_file(path: Path, module_name: str, code: bytes) -> None:
    """Import a file from the bytes that were read, so that what runs is what `source_hash` says."""
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"plug-in {path} is no Python file (its name must end in .py)")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    _plugin_hashes[module_name] = _sha256(code)
    try:
        exec(compile(code, path, "exec"), module.__dict__)
    except (Exception, SystemExit) as error:
        _forget([module_name])  # nothing half-registered stays
        raise UsageError(f"plug-in {path} cannot be loaded: {type(error).__name__}: {error}") from error
    if path not in plugin_files:
        plugin_files.append(path)


def _forget(modules: Sequence[str]) -> None:
    """Take modules of plug-ins and what they registered away."""
    for registry in (METHODS, TASKS):
        for name in [n for n, cls in registry.classes.items() if cls.__module__ in modules]:
            del registry.classes[name]
    for module in modules:
        del sys.modules[module]


def source_file(cls: type) -> Path:
    """The file a method or task class was written in; raises UsageError for one that was typed in, as in a notebook."""
    try:
        return Path(inspect.getfile(cls))
    except (OSError, TypeError) as error:
        raise UsageError(
            f"{_origin(cls)} was written in no file, so results could not say what made them; put it into a file and "
            "load that as a plug-in"
        ) from error


def source_hash(cls: type) -> str:
    """SHA-256 of the files behind a class, as they were loaded: part of every run id."""
    files = source_files(cls)
    hashes = [_plugin_hashes.get(code.module) or _file_hash(code.path) for code in files]
    lines = [f"{code.label} {one}\n" for code, one in zip(files, hashes, strict=True)]
    return hashes[0] if len(files) == 1 else _sha256("".join(lines).encode())


@cache
def _file_hash(path: Path) -> str:
    """Read once a process: what was imported stays as it was, whatever becomes of its file."""
    return _sha256(path.read_bytes())


@cache
def source_files(cls: type) -> list[Code]:
    """A class's file and those that it imports or inherits from, of its own package or folder and of the built-in ones.

    Neither the harness is among them, which has versions of its own, nor other installed packages, nor what is imported
    by a name that is put together.
    """
    own = {_top_package(cls.__module__), METHODS.package, TASKS.package}
    bases = [b for b in cls.__mro__[1:] if b.__module__ in _plugin_hashes or _top_package(b.__module__) in own]
    data = getattr(cls, "data_modules", ())  # whose doing the hash of the data tells
    return closure([Code(c.__module__, source_file(c)) for c in (cls, *bases)], _code_of, data)


def _code_of(importer: Code, named: Named) -> Code | None:
    """The file of what another imports, if it belongs to it or to us."""
    if named.kind != "module":
        try:
            cls = (METHODS if named.kind == METHODS.kind else TASKS).load(named.name)
            return Code(cls.__module__, source_file(cls))
        except UsageError:  # whoever calls it is told
            return None
    top = _top_package(named.name)
    if top in (METHODS.package, TASKS.package):
        return find_module(Path(importlib.import_module(top).__path__[0]).parent, named.name)
    shared = any(importer.root.glob("*.dist-info"))  # a folder of installed packages: what lies beside is others'
    if top == _top_package(__package__) or (shared and top != _top_package(importer.module)):
        return None
    return find_module(importer.root, named.name)


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _top_package(module: str) -> str:
    return module.partition(".")[0]


def _origin(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"
