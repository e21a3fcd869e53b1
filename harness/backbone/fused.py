"""A decode step of the body in few operations, for the families whose layers have a fused form.

Only a model that is exactly as transformers made it is run so. Where anything watches or changes a module (hooks, a
replaced `forward`, a subclass, an adapter, another attention), the stock body runs under gates instead.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from .cache import PlanCache
from .fused_layers import FusedLlamaLayer, FusedOPTLayer, Pass
from .fused_parts import QKV, Rotary, parameters_of
from .gating import Visit
from .untouched import is_stock, sdpa_is_stock, untouched

_LINEAR = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
_TABLE_ROPES = ("default", "linear", "llama3", "yarn")  # whose angles do not depend on how long the sequence is


def _rotary_parts(family: str) -> dict[str, str]:
    linear = (*_LINEAR, "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")
    return {
        "": f"{family}DecoderLayer",
        "self_attn": f"{family}Attention",
        "mlp": f"{family}MLP",
        **dict.fromkeys(("input_layernorm", "post_attention_layernorm"), f"{family}RMSNorm"),
        **dict.fromkeys(linear, "Linear"),
    }


# family: the class of its body, and those of a layer's parts, which the fused layer stands for
_STOCK = {
    "opt": (
        "OPTDecoder",
        {
            "": "OPTDecoderLayer",
            "self_attn": "OPTAttention",
            **dict.fromkeys(("self_attn_layer_norm", "final_layer_norm"), "LayerNorm"),
            **dict.fromkeys((*_LINEAR, "self_attn.out_proj", "fc1", "fc2"), "Linear"),
        },
    ),
    "llama": ("LlamaModel", _rotary_parts("Llama")),
    "qwen2": ("Qwen2Model", _rotary_parts("Qwen2")),
}


class FusedBody:
    """Embedding, fused layers and final norm of a model, with the weights it had when this was made."""

    def __init__(self, backbone, weights: Sequence[QKV]) -> None:
        self._backbone, body = backbone, backbone.body
        self._embed, self._project_in = body.embed_tokens, getattr(body, "project_in", None)
        self._embed_positions = getattr(body, "embed_positions", None)
        self._pass = Pass()
        pairs = list(zip(backbone.layers, weights, strict=True))
        if self._embed_positions is not None:
            self._rotary = None
            self._layers = [FusedOPTLayer(layer, qkv, self._pass) for layer, qkv in pairs]
        else:
            self._rotary = Rotary(body.rotary_emb, self._embed.weight.detach())
            self._layers = [FusedLlamaLayer(layer, qkv, self._pass, self._rotary) for layer, qkv in pairs]

    def run(self, tokens: Tensor, positions: Tensor, cache: PlanCache, visit: Visit) -> Tensor:
        """Finished hidden states [rows, columns, width] of tokens at positions, both [rows, columns].

        The layers are handed to `visit` as gates hand over theirs: `visit(index, hidden, call)`.
        """
        self._pass.cache = cache
        hidden = self._embed(tokens)
        if self._rotary is not None:
            self._rotary.at(positions, cache.end)
        else:
            if self._project_in is not None:
                hidden = self._project_in(hidden)
            hidden = hidden + self._embed_positions(None, 0, position_ids=positions)
        for index, layer in enumerate(self._layers):
            hidden = visit(index, hidden, layer)
        return self._backbone.finish(hidden)


def fused_body(backbone) -> FusedBody | None:
    """The fused form of a backbone's body, or None where only the stock body is sure to be right."""
    if not _can_fuse(backbone):
        return None
    weights = _fused_weights(backbone)
    return FusedBody(backbone, weights) if weights else None


def _can_fuse(backbone) -> bool:
    if torch.is_grad_enabled() or torch.is_autocast_enabled(backbone.device.type) or backbone.family not in _STOCK:
        return False
    body, layers = backbone.body, list(backbone.layers)
    body_class, parts = _STOCK[backbone.family]
    if not is_stock(body, {"": body_class}) or not all(is_stock(layer, parts) for layer in layers):
        return False
    attentions = [layer.self_attn for layer in layers]
    if [a.layer_idx for a in attentions] != list(range(len(layers))) or not sdpa_is_stock(attentions):
        return False
    if hasattr(body, "rotary_emb") and getattr(body.rotary_emb, "rope_type", None) not in _TABLE_ROPES:
        return False
    if {(p.dtype, p.device) for p in body.parameters()} != {(backbone.dtype, backbone.device)}:
        return False
    return untouched([body, *(module for layer in layers for module in layer.modules())])


def _fused_weights(backbone) -> list[QKV]:
    """Query, key and value weights of every layer as they are now; none if one's do not go into one matrix.

    Their memory stays with the backbone; layers that share their parameters share it. They are copied for every call,
    since no sign tells surely that weights are as they were: a change through `.data` leaves no trace.
    """
    kept, used = backbone.fused_weights, {}
    keys = []
    for layer in backbone.layers:
        weights, biases = parameters_of(layer.self_attn)
        keys.append(key := tuple(map(id, (*weights, *biases))))
        made = used.get(key) or kept.get(key)
        used[key] = made if made is not None and made.is_whole else QKV(layer.self_attn)
        if not used[key].is_whole:
            return []
    backbone.fused_weights = used
    for qkv in used.values():
        qkv.refresh()
    return [used[key] for key in keys]
