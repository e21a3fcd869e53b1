"""CALM's exit classifier beside a checkpoint's weights."""

from __future__ import annotations

import os
from pathlib import Path

from torch import Tensor

from ..errors import UsageError

FILE_NAME = "exit_classifier.safetensors"


def save_exit_classifier(classifier: Tensor, folder: str | Path) -> None:
    """Write a classifier [width + 1] into a checkpoint folder, whole or not at all."""
    from safetensors.torch import save_file

    part = Path(folder) / f".{FILE_NAME}.{os.getpid()}"
    save_file({"classifier": classifier.detach().float().cpu().contiguous()}, part)
    part.replace(Path(folder) / FILE_NAME)


def holds_exit_classifier(folder: str | Path) -> bool:
    """Whether a checkpoint folder brings a classifier."""
    return (Path(folder) / FILE_NAME).is_file()


def read_exit_classifier(folder: str | Path) -> Tensor | None:
    """The classifier [width + 1] of a checkpoint folder; None where there is none."""
    if not holds_exit_classifier(folder):
        return None
    file = Path(folder) / FILE_NAME
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    try:
        return load_file(file)["classifier"]
    except (SafetensorError, KeyError) as error:
        raise UsageError(f"{file} is no exit classifier ({error}); train the checkpoint again") from error
