"""Which architectures are supported, and where each keeps its parts.

The parts are found by attribute path, so a new family of the usual pre- or post-norm kind is one line here.
"""

from __future__ import annotations

from dataclasses import dataclass
from operator import attrgetter

from torch import nn

from ..errors import UsageError


class UnsupportedModel(UsageError):
    """A model whose layers cannot be skipped correctly by this engine."""


@dataclass(frozen=True)
class Family:
    """Attribute paths inside the `…ForCausalLM` model; `project` and `norm` may be absent from a given model."""

    body: str  # the module whose forward runs the decoder layers
    layers: str  # the attribute of `body` that holds them
    norm: str  # final norm, applied by the body after the last layer
    project: str | None = None  # output projection between final norm and head
    dense_mask: bool = True  # the body passes a ready 4-D attention mask on


FAMILIES = {
    "llama": Family("model", "layers", "norm"),
    "qwen2": Family("model", "layers", "norm"),
    "opt": Family("model.decoder", "layers", "final_layer_norm", project="project_out"),
    "gpt2": Family("transformer", "h", "ln_f"),
    "bloom": Family("transformer", "h", "ln_f", dense_mask=False),  # builds alibi from a 2-D mask
    "gpt_neox": Family("gpt_neox", "layers", "final_layer_norm"),
}
SUPPORTED_FAMILIES = tuple(FAMILIES)


def family_of(model: nn.Module) -> Family:
    """The family of a causal LM; raises UnsupportedModel, naming what is in the way."""
    config = getattr(model, "config", None)
    kind = getattr(config, "model_type", type(model).__name__)
    if kind not in FAMILIES:
        raise UnsupportedModel(f"models of kind {kind!r} are not supported; supported: {', '.join(FAMILIES)}")
    if getattr(config, "is_encoder_decoder", False):
        raise UnsupportedModel(f"{kind}: encoder-decoder models are not supported")
    if getattr(config, "add_cross_attention", False):
        raise UnsupportedModel(f"{kind}: cross-attention is not supported")
    if _uses_sliding_window(config):
        raise UnsupportedModel(f"{kind}: sliding-window attention is not supported; set use_sliding_window=False")
    if "longrope" in _rotary_kinds(config):
        raise UnsupportedModel(f"{kind}: longrope is not supported; its angles depend on the longest row of a batch")
    family = FAMILIES[kind]
    if not _has(model, family.body) or model.get_output_embeddings() is None:
        raise UnsupportedModel(f"{type(model).__name__} has no language-model head; load it as a causal LM")
    return family


def part(module: nn.Module, path: str | None) -> nn.Module | None:
    """The submodule at a dotted path, or None where the model has none."""
    return attrgetter(path)(module) if path and _has(module, path) else None


def _uses_sliding_window(config) -> bool:
    kinds = getattr(config, "layer_types", None) or ()
    if any(kind != "full_attention" for kind in kinds):
        return True
    window = getattr(config, "sliding_window", None)
    return window is not None and getattr(config, "use_sliding_window", True)


def _rotary_kinds(config) -> set[str | None]:
    """Kinds of rotary embedding that a config asks for; it may name them for each kind of layer."""
    rope = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    parts = [rope, *(part for part in rope.values() if isinstance(part, dict))]
    return {part.get("rope_type", part.get("type")) for part in parts}


def _has(module: nn.Module, path: str) -> bool:
    for name in path.split("."):
        module = getattr(module, name, None)
        if module is None:
            return False
    return True
