"""Models by name: a folder, a GGUF file, a built-in name, a package that carries weights, or the Hugging Face hub."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import torch

from ..errors import UsageError, unknown
from .builtin import BUILTIN, untrained
from .looped import num_cycles, tie_cycles
from .names import check_model_name, model_path

DTYPES = {"float32": torch.float32, "float64": torch.float64, "bfloat16": torch.bfloat16, "float16": torch.float16}


def load_model(name: str, dtype: str = "float32"):
    """(model, tokenizer or None, label) for a model name; raises UsageError saying what was tried."""
    if dtype not in DTYPES:
        raise unknown("dtype", dtype, DTYPES)
    if name in BUILTIN:
        return untrained(name).to(DTYPES[dtype]), None, f"{name} (untrained)"
    path = model_path(name)
    if path is None:
        return (*_from_hub(name, dtype), name)
    if path.is_file():
        return (*_from_gguf(path, dtype), name if name != str(path) else path.stem)
    return (*_from_pretrained(str(path), dtype, local=True), path.name)


def _from_gguf(path, dtype: str):
    if importlib.util.find_spec("gguf") is None:
        raise UsageError(f"reading {path.name} needs the package gguf: pip install gguf")
    return _from_pretrained(str(path.parent), dtype, local=True, gguf_file=path.name)


def _from_pretrained(name: str, dtype: str, local: bool, **options):
    from transformers import AutoModelForCausalLM, AutoTokenizer
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()  # ours say more
    options |= {"local_files_only": local}
    try:
        model, found = AutoModelForCausalLM.from_pretrained(
            name, dtype=DTYPES[dtype], output_loading_info=True, **options
        )
    except Exception as error:  # damaged files raise whatever their reader does
        raise UsageError(f"model {name!r} cannot be loaded: {_first_line(error)}") from error
    _check_complete(name, found)
    if num_cycles(model.config) is not None:
        tie_cycles(model)
    if Path(name).is_dir() and "gguf_file" not in options and not _holds_tokenizer(Path(name)):
        return model, None  # weights alone still serve token ids; AutoTokenizer would make up an empty tokenizer
    try:
        tokenizer = AutoTokenizer.from_pretrained(name, **options)
    except Exception as error:
        if Path(name).is_dir():
            raise UsageError(f"the tokenizer in {name} cannot be read: {_first_line(error)}") from error
        tokenizer = None  # a hub model without one
    return model, tokenizer


def _check_complete(name: str, found: dict) -> None:
    """Raise UsageError where transformers would go on with random weights."""
    missing = sorted(map(str, [*found.get("missing_keys", ()), *found.get("mismatched_keys", ())]))
    if missing:
        raise UsageError(
            f"model {name!r} is not complete: its files lack {len(missing)} of the weights that its config asks for, "
            f"such as {missing[0]}"
        )


def _holds_tokenizer(folder: Path) -> bool:
    patterns = ("tokenizer*", "vocab.*", "*.model", "spiece.*")
    return any(True for pattern in patterns for _ in folder.glob(pattern))


def _from_hub(name: str, dtype: str):
    check_model_name(name)
    try:
        return _from_pretrained(name, dtype, local=True)  # what an earlier download left costs no network
    except UsageError:
        return _from_pretrained(name, dtype, local=False)


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
