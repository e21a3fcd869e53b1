"""Where methods and tasks are found: built-in files, plug-in files and installed packages.

Nothing here names a method or a task. A built-in is a file of the package `methods` or `tasks`; an installed package
registers through the entry-point groups `skipbench.methods` and `skipbench.tasks`; `--plugin FILE` adds one file.
Everything is imported on demand and once. A source that cannot be imported is listed as broken, with its reason, and
hurts nothing else.
"""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.metadata
import importlib.util
import inspect
import pkgutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .errors import UsageError, unknown


@dataclass
class Registry:
    """Names of one kind (`method` or `task`) and the classes behind them."""

    kind: str
    package: str  # built-in package, one file a name
    group: str  # entry-point group of installed packages
    classes: dict[str, type] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)
    _sources: dict[str, Callable[[], object]] | None = None

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
            for source in [*_builtin_sources(self), *_installed_sources(self)]:
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


@dataclass(frozen=True)
class Source:
    """One importable place that registers `name`."""

    name: str
    label: str
    module: str
    load: Callable[[], object]


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
    start = f"skipbench_plugin_{path.stem}_{_sha256(str(path).encode())[:8]}_"
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
    """SHA-256 of the bytes of the class's file, of a plug-in's as they were loaded: part of every run id."""
    return _plugin_hashes.get(cls.__module__) or _sha256(source_file(cls).read_bytes())


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _top_package(module: str) -> str:
    return module.partition(".")[0]


def _origin(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _builtin_sources(registry: Registry) -> list[Source]:
    package = importlib.import_module(registry.package)
    sources = []
    for info in pkgutil.iter_modules(package.__path__):
        module = f"{registry.package}.{info.name}"
        file = Path(package.__path__[0]) / f"{info.name}.py"
        for name in _registered_names(file, f"register_{registry.kind}"):
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


def _installed_sources(registry: Registry) -> list[Source]:
    points = importlib.metadata.entry_points(group=registry.group)
    return [Source(p.name, f"{p.value} ({p.dist.name if p.dist else 'installed'})", p.module, p.load) for p in points]
