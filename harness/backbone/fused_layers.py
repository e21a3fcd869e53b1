"""Decoder layers in few operations, for decode steps: one product for query, keys and values, no module calls.

Each equals its stock layer tensor by tensor, keys and values included. What a layer reads is taken anew from the stock
modules for every decode call, so that changed weights are never missed.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention, silu

from .cache import PlanCache
from .fused_parts import QKV, Product, RMSNorm, Rotary


@dataclass
class Pass:
    """What the layers of a pass have in common."""

    cache: PlanCache | None = None


class FusedLayer:
    """Called like a gate's `call`: hidden states [rows, columns, width] and the pass's additive mask."""

    def __init__(self, attention: nn.Module, qkv: QKV, now: Pass) -> None:
        self.now, self.index = now, attention.layer_idx
        self.head_width, self.scale = attention.head_dim, attention.scaling
        kv_bias = None if qkv.bias is None else qkv.bias[qkv.queries :]
        self.qkv, self.kv = Product(qkv.weight, qkv.bias), Product(qkv.weight[qkv.queries :], kv_bias)

    def __call__(self, hidden: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """The layer's output; with `cache.keys_only` its keys and values alone are computed, and KeysWritten raised."""
        rows, columns, width = hidden.shape
        flat = hidden.reshape(-1, width)
        if self.now.cache.keys_only:
            self.write_keys(flat, rows, columns)
        return self.run(flat, rows, columns, attention_mask).view(rows, columns, width)

    def run(self, hidden: Tensor, rows: int, columns: int, mask: Tensor | None) -> Tensor:
        raise NotImplementedError

    def write_keys(self, hidden: Tensor, rows: int, columns: int) -> None:
        raise NotImplementedError


class FusedOPTLayer(FusedLayer):
    """`OPTDecoderLayer`, with its norms before or after attention and feed-forward."""

    def __init__(self, layer: nn.Module, qkv: QKV, now: Pass) -> None:
        super().__init__(layer.self_attn, qkv, now)
        self.norm_first = layer.do_layer_norm_before
        self.norm, self.final_norm = _norm_of(layer.self_attn_layer_norm), _norm_of(layer.final_layer_norm)
        self.out, self.fc1, self.fc2 = map(Product.of, (layer.self_attn.out_proj, layer.fc1, layer.fc2))
        self.activation = torch.relu_ if type(layer.activation_fn) is nn.ReLU else layer.activation_fn

    def run(self, hidden: Tensor, rows: int, columns: int, mask: Tensor | None) -> Tensor:
        normed = torch.layer_norm(hidden, *self.norm) if self.norm_first else hidden
        states = self.qkv(normed).view(rows, columns, 3, -1, self.head_width).permute(2, 0, 3, 1, 4)
        keys, values = self.now.cache.write(states[1:], self.index)  # each [rows, heads, slots, head width]
        mixed = scaled_dot_product_attention(states[0], keys, values, mask, scale=self.scale)
        hidden = self.out(mixed.transpose(1, 2).reshape(hidden.shape)).add_(hidden)
        if not self.norm_first:
            hidden = torch.layer_norm(hidden, *self.norm)
        normed = torch.layer_norm(hidden, *self.final_norm) if self.norm_first else hidden
        hidden = self.fc2(self.activation(self.fc1(normed))).add_(hidden)
        return hidden if self.norm_first else torch.layer_norm(hidden, *self.final_norm)

    def write_keys(self, hidden: Tensor, rows: int, columns: int) -> None:
        normed = torch.layer_norm(hidden, *self.norm) if self.norm_first else hidden
        states = self.kv(normed).view(rows, columns, 2, -1, self.head_width)
        self.now.cache.write(states.permute(2, 0, 3, 1, 4), self.index)


class FusedLlamaLayer(FusedLayer):
    """`LlamaDecoderLayer` and `Qwen2DecoderLayer`: rotary positions, grouped heads, a gated feed-forward."""

    def __init__(self, layer: nn.Module, qkv: QKV, now: Pass, rotary: Rotary) -> None:
        super().__init__(layer.self_attn, qkv, now)
        self.rotary = rotary
        self.heads = qkv.queries // self.head_width
        self.kv_heads = self.heads // layer.self_attn.num_key_value_groups
        self.norm, self.mlp_norm = RMSNorm(layer.input_layernorm), RMSNorm(layer.post_attention_layernorm)
        self.out = Product.of(layer.self_attn.o_proj)
        self.gate, self.up, self.down = map(Product.of, (layer.mlp.gate_proj, layer.mlp.up_proj, layer.mlp.down_proj))
        self.activation = _silu_ if type(layer.mlp.act_fn).__name__ in _SILU else layer.mlp.act_fn

    def run(self, hidden: Tensor, rows: int, columns: int, mask: Tensor | None) -> Tensor:
        states = self.qkv(self.norm(hidden)).view(rows, columns, -1, self.head_width)
        self.rotary(states.narrow(2, 0, self.heads + self.kv_heads))
        keys, values = self._write(states.narrow(2, self.heads, 2 * self.kv_heads))
        mixed = self._attend(states.narrow(2, 0, self.heads), keys, values, mask).reshape(rows * columns, -1)
        hidden = self.out.added_to(hidden, mixed)
        normed = self.mlp_norm(hidden)
        return self.down.added_to(hidden, self.activation(self.gate(normed)).mul_(self.up(normed)))

    def write_keys(self, hidden: Tensor, rows: int, columns: int) -> None:
        states = self.kv(self.norm(hidden)).view(rows, columns, -1, self.head_width)
        self.rotary(states.narrow(2, 0, self.kv_heads))
        self._write(states)

    def _write(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values [rows, columns, 2 · heads, head width] into the cache; those in sight."""
        rows, columns, _, width = states.shape
        pair = states.view(rows, columns, 2, self.kv_heads, width).permute(2, 0, 3, 1, 4)
        return self.now.cache.write(pair, self.index)

    def _attend(self, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        """Mixed values, in the shape of the query: [rows, columns, heads, head width]."""
        rows, columns, heads, width = query.shape
        if columns > 1:
            grouped = self.kv_heads < heads
            query = query.transpose(1, 2)
            mixed = scaled_dot_product_attention(query, keys, values, mask, scale=self.scale, enable_gqa=grouped)
            return mixed.transpose(1, 2)
        # the heads of a group see the same keys: they take the place of columns, and no key is repeated
        query = query.view(rows, self.kv_heads, -1, width)
        mixed = scaled_dot_product_attention(query, keys, values, mask, scale=self.scale)
        return mixed.reshape(rows, 1, heads, width)


_SILU = ("SiLU", "SiLUActivation")


def _silu_(inner: Tensor) -> Tensor:
    return silu(inner, inplace=True)


def _norm_of(module: nn.LayerNorm) -> tuple[tuple[int, ...], Tensor | None, Tensor | None, float]:
    return module.normalized_shape, module.weight, module.bias, module.eps
