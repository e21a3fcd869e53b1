"""Weight reads, from parameter shapes: what decoding costs where memory is the limit, on any machine."""

from __future__ import annotations

from typing import NamedTuple

from torch import nn

from ..backbone import Backbone
from .samples import Trace

KEYS_AND_VALUES = ("k_proj", "v_proj")
FUSED = ("c_attn", "query_key_value")  # query, keys and values in one product of three equal shares


class Reads(NamedTuple):
    """Weights read for one decoder layer, for the head (with norm and projection), for keys and values alone."""

    layer: int
    head: int
    keys: int

    def of(self, trace: Trace) -> float:
        """Weights read in a method's mean decode step."""
        return trace.layers * self.layer + trace.heads * self.head + trace.keys_only * self.keys


def weight_reads(backbone: Backbone) -> Reads:
    """The model's reads; its layers are all of one shape."""
    layer = backbone.layers[0]
    finish = [m for m in (backbone.norm, backbone.project, backbone.lm_head) if m is not None]
    return Reads(_size(layer), sum(map(_size, finish)), _keys(layer))


def speedup_reads(reads: Reads, trace: Trace, baseline: Trace) -> float:
    """Weights the baseline reads in a step over those the method reads."""
    return reads.of(baseline) / reads.of(trace)


def _keys(layer: nn.Module) -> int:
    sizes = {name.rpartition(".")[2]: _size(module) for name, module in layer.named_modules()}
    return sum(sizes.get(name, 0) for name in KEYS_AND_VALUES) + sum(sizes.get(n, 0) * 2 // 3 for n in FUSED)


def _size(module: nn.Module) -> int:
    return sum(p.numel() for p in module.parameters())
