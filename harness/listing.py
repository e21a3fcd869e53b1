"""What is there to run, as text: methods, tasks, suites, models, and what is broken."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from .registry import METHODS, TASKS, Registry, load_plugin
from .suite import suite_names


def listing(plugins: Iterable[Path] = ()) -> str:
    """A line for each name, with the first line of its description; broken plug-ins with their reason."""
    from .backbone.builtin import BUILTIN

    for file in plugins:
        load_plugin(file)
    parts = [_registered("methods", METHODS), _registered("tasks", TASKS)]
    parts.append("suites\n" + "\n".join(f"  {name}" for name in suite_names()))
    models = (f"  {name:16} {f}, {layers} layers x {width}" for name, (f, layers, width, _) in BUILTIN.items())
    parts.append("built-in models\n" + "\n".join(models))
    return "\n\n".join(parts)


def _registered(title: str, registry: Registry) -> str:
    lines = [f"  {name:16} {_first_line(cls)}" for name, cls in registry.load_all().items()]
    lines += [f"  {name:16} BROKEN: {reason}" for name, reason in sorted(registry.broken.items())]
    return "\n".join([title, *lines])


def _first_line(cls: type) -> str:
    return next(iter((cls.__doc__ or "").strip().splitlines()), "")
