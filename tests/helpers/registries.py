"""Plug-ins for one test only: what a test registers is forgotten afterwards, but for built-in files it imported."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from harness.registry import METHODS, TASKS


@contextmanager
def forgotten_afterwards() -> Iterator[None]:
    """Restore both registries; modules of plug-in files imported meanwhile are dropped."""
    kept = [(r, dict(r.classes), dict(r.broken), r._sources) for r in (METHODS, TASKS)]
    modules = set(sys.modules)
    try:
        yield
    finally:
        for registry, classes, broken, sources in kept:
            own = {n: c for n, c in registry.classes.items() if c.__module__.startswith(f"{registry.package}.")}
            registry.classes, registry.broken, registry._sources = {**classes, **own}, broken, sources
        for name in set(sys.modules) - modules:
            if name.startswith("skipbench_"):
                del sys.modules[name]
