"""Where methods and tasks are found, by name, and which files stand behind each."""

from .registry import (
    METHODS,
    TASKS,
    Registry,
    load_plugin,
    plugin_files,
    register_method,
    register_task,
    source_file,
    source_files,
    source_hash,
)

__all__ = [
    "METHODS",
    "Registry",
    "TASKS",
    "load_plugin",
    "plugin_files",
    "register_method",
    "register_task",
    "source_file",
    "source_files",
    "source_hash",
]
