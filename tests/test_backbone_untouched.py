"""Whoever watches or changes a module gets the stock modules, not the fused layers."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.modules.module import register_module_forward_hook
from transformers import LlamaConfig
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS
from transformers.models.opt.modeling_opt import OPTDecoderLayer

from harness.backbone.fused import fused_body
from harness.backbone.tiny import tiny_backbone, tiny_config


class OwnLinear(nn.Linear):
    """Somebody's adapter."""


def set_linear_class(backbone, layer, patch):
    layer.fc1.__class__ = OwnLinear


def hook_on_layer(backbone, layer, patch):
    layer.register_forward_hook(lambda *_: None)


def hook_inside(backbone, layer, patch):
    layer.self_attn.v_proj.register_forward_pre_hook(lambda *_: None)


def hook_on_body(backbone, layer, patch):
    backbone.body.register_forward_pre_hook(lambda *_: None)


def hook_everywhere(backbone, layer, patch):
    handle = register_module_forward_hook(lambda *_: None)
    patch.callback = handle.remove


def own_forward(backbone, layer, patch):
    forward = layer.forward
    layer.forward = lambda *args, **kwargs: forward(*args, **kwargs)


def own_class_forward(backbone, layer, patch):
    forward = OPTDecoderLayer.forward
    patch.setattr(OPTDecoderLayer, "forward", lambda self, *args, **kwargs: forward(self, *args, **kwargs))


def own_linear_forward(backbone, layer, patch):
    forward = nn.Linear.forward
    patch.setattr(nn.Linear, "forward", lambda self, x: forward(self, x))


def subclass(backbone, layer, patch):
    layer.__class__ = type("OPTDecoderLayer", (OPTDecoderLayer,), {"__module__": "elsewhere"})


def eager(backbone, layer, patch):
    backbone.model.set_attn_implementation("eager")


def own_attention(backbone, layer, patch):
    stock = ALL_ATTENTION_FUNCTIONS["sdpa"]
    patch.setitem(ALL_ATTENTION_FUNCTIONS, "sdpa", lambda *args, **kwargs: stock(*args, **kwargs))


def training(backbone, layer, patch):
    layer.train()


def other_place(backbone, layer, patch):
    layer.self_attn.layer_idx = 2


def no_bias(backbone, layer, patch):
    layer.self_attn.k_proj.bias = None


def own_parameter(backbone, layer, patch):
    class Packed(nn.Parameter):
        pass

    layer.fc2.weight = Packed(layer.fc2.weight.data)
    layer.fc2.weight.__class__ = Packed


def another_type(backbone, layer, patch):
    layer.final_layer_norm.float()


def compiled(backbone, layer, patch):
    layer._compiled_call_impl = layer._call_impl


TOUCHES = [
    set_linear_class, hook_on_layer, hook_inside, hook_on_body, hook_everywhere, own_forward, own_class_forward,
    own_linear_forward, subclass, eager, own_attention, training, other_place, no_bias, own_parameter, another_type,
    compiled,
]  # fmt: skip


@pytest.mark.parametrize("touch", TOUCHES, ids=lambda touch: touch.__name__)
@torch.inference_mode()
def test_a_touched_model_is_left_to_its_own_modules(touch):
    with torch.inference_mode(False):
        backbone = tiny_backbone("opt")
    assert fused_body(backbone) is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.callback = lambda: None
        touch(backbone, backbone.layers[1], patch)
        found = fused_body(backbone)
        patch.callback()
    assert found is None


def test_gradients_and_autocast_are_left_to_the_modules():
    backbone = tiny_backbone("opt")
    assert fused_body(backbone) is None
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        assert fused_body(backbone) is None
    with torch.no_grad():
        assert fused_body(backbone) is not None


@pytest.mark.parametrize("kind", ["gpt2", "bloom", "gpt_neox"])
@torch.inference_mode()
def test_other_families_keep_their_gates(kind):
    backbone = tiny_backbone(kind)
    assert fused_body(backbone) is None


@torch.inference_mode()
def test_angles_that_depend_on_the_length_are_left_to_the_module():
    config = LlamaConfig(**tiny_config("llama").to_dict() | {"rope_scaling": {"rope_type": "dynamic", "factor": 2.0}})
    backbone = tiny_backbone("llama", config=config)
    assert fused_body(backbone) is None
