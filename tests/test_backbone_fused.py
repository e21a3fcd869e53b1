"""Fused decode layers equal the stock layers tensor by tensor, keys and values included."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils.flop_counter import FlopCounterMode
from transformers import LlamaConfig, OPTConfig, Qwen2Config
from transformers.models.llama.modeling_llama import LlamaRMSNorm

from harness.backbone import Backbone, KeysWritten, PlanCache, gates
from harness.backbone.fused import fused_body
from harness.backbone.fused_parts import RMSNorm
from harness.backbone.masked import additive
from harness.backbone.tiny import VOCABULARY, tiny_backbone

KINDS = ["opt", "opt_projected", "llama", "qwen2"]
LAYERS, POSITIONS = 3, 64
RUN, SKIP, KEYS = "run", "skip", "keys and values only"


def common(hidden: int, heads: int) -> dict:
    return {
        "vocab_size": VOCABULARY,
        "hidden_size": hidden,
        "num_hidden_layers": LAYERS,
        "num_attention_heads": heads,
        "max_position_embeddings": POSITIONS,
        "tie_word_embeddings": False,
    }


@st.composite
def opt_configs(draw) -> OPTConfig:
    heads, head_width = draw(st.sampled_from([1, 2, 3])), draw(st.sampled_from([2, 6, 8]))
    hidden, flags = heads * head_width, st.booleans()
    return OPTConfig(
        **common(hidden, heads),
        ffn_dim=draw(st.sampled_from([5, 24])),
        word_embed_proj_dim=draw(st.sampled_from([hidden, 6])),
        do_layer_norm_before=draw(flags),
        _remove_final_layer_norm=draw(flags),
        enable_bias=draw(flags),
        layer_norm_elementwise_affine=draw(flags),
        activation_function=draw(st.sampled_from(["relu", "gelu"])),
        init_std=0.2,
    )


@st.composite
def rotary_configs(draw) -> LlamaConfig | Qwen2Config:
    kv_heads, groups, head_width = (draw(st.sampled_from(sizes)) for sizes in ([1, 2], [1, 2, 3], [2, 4, 8]))
    heads = kv_heads * groups
    options = {
        **common(heads * head_width, heads),
        "num_key_value_heads": kv_heads,
        "intermediate_size": draw(st.sampled_from([5, 24])),
        "initializer_range": 0.2,
        "hidden_act": draw(st.sampled_from(["silu", "gelu"])),
    }
    scaling = {"rope_type": "linear", "factor": 2.0}
    options["rope_scaling"] = draw(st.sampled_from([None, scaling]))
    if draw(st.booleans()):
        return Qwen2Config(**options, use_sliding_window=False)
    return LlamaConfig(**options, attention_bias=draw(st.booleans()), mlp_bias=draw(st.booleans()))


@settings(max_examples=60, deadline=None, derandomize=True)
@given(config=st.one_of(opt_configs(), rotary_configs()), data=st.data())
def test_every_tensor_equals_the_stock_layers(config, data):
    """The same hidden states go through stock and fused layers: outputs, and all keys and values, are the same."""
    backbone = tiny_backbone(config.model_type, config=config)
    lengths = data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=4))
    columns = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=4))  # tokens a row in each pass
    plans = [data.draw(st.lists(st.sampled_from([RUN, RUN, SKIP, KEYS]), min_size=3, max_size=3)) for _ in columns]
    capacities = [max(lengths) + sum(columns)] * LAYERS
    stock_cache, fused_cache = (PlanCache(lengths, capacities) for _ in range(2))
    with torch.inference_mode():
        fused = fused_body(backbone)
        assert fused is not None
        for cache in (stock_cache, fused_cache):  # the prompt's keys and values
            prefill(backbone, cache, lengths)
        for count, plan in zip(columns, plans, strict=True):
            tokens = torch.randint(VOCABULARY, (len(lengths), count))
            for cache in (stock_cache, fused_cache):
                cache.begin_step(count)
            positions = torch.tensor(stock_cache.lengths)[:, None] + torch.arange(count)
            mask = additive(torch.arange(stock_cache.end) <= positions[:, None, :, None], torch.float64)
            if count == 1 and stock_cache.uniform:
                mask = None
            before, after = [], []
            with gates(backbone, stepped(plan, stock_cache, mask, before, after)):
                stock_end = backbone.run_body(tokens, positions, stock_cache)
            check = compared(plan, fused_cache, mask, before, after)
            assert torch.allclose(fused.run(tokens, positions, fused_cache, check), stock_end, rtol=0, atol=1e-11)
            for cache in (stock_cache, fused_cache):
                cache.commit()
            same_contents(fused_cache, stock_cache)


def same_contents(ours: PlanCache, theirs: PlanCache) -> None:
    """Every key and value, and which positions each layer holds."""
    for a, b in zip(ours.keys + ours.values, theirs.keys + theirs.values, strict=True):
        assert torch.allclose(a, b, rtol=0, atol=1e-11)
    for row in range(len(ours.lengths)):
        assert [ours.holds(i, row) for i in range(LAYERS)] == [theirs.holds(i, row) for i in range(LAYERS)]


def prefill(backbone: Backbone, cache: PlanCache, lengths: list[int]) -> None:
    """Random keys and values for the prompt, the same for every cache."""
    heads = getattr(backbone.config, "num_key_value_heads", None) or backbone.config.num_attention_heads
    width = backbone.config.hidden_size // backbone.config.num_attention_heads
    generator = torch.Generator().manual_seed(0)
    for layer in range(LAYERS):
        states = torch.randn(2, len(lengths), heads, max(lengths), width, generator=generator, dtype=torch.float64)
        cache.update(states[0], states[1], layer)
    cache.commit()


def act(what: str, cache: PlanCache, hidden, call, mask):
    """What a stepper does with a layer."""
    if what == RUN:
        return call(hidden, attention_mask=mask)
    if what == KEYS:
        cache.keys_only = True
        with pytest.raises(KeysWritten):
            call(hidden, attention_mask=mask)
        cache.keys_only = False
    return hidden


def stepped(plan, cache, mask, before, after):
    def visit(index, hidden, call):
        before.append(hidden.clone())
        after.append(act(plan[index], cache, hidden, call, mask))
        return after[-1]

    return visit


def compared(plan, cache, mask, before, after):
    def visit(index, hidden, call):
        assert torch.allclose(hidden, before[index], rtol=0, atol=1e-11)
        given = before[index].clone()
        out = act(plan[index], cache, given, call, mask)
        assert torch.equal(given, before[index])  # a layer leaves its input as it is
        assert torch.allclose(out, after[index], rtol=0, atol=1e-11)
        return after[index]

    return visit


@pytest.mark.parametrize("kind", KINDS)
@torch.inference_mode()
def test_keys_and_values_alone_cost_their_own_product_and_nothing_else(kind):
    backbone = tiny_backbone(kind, 1)
    cache = PlanCache([1, 1], [4])
    fused = fused_body(backbone)
    cache.commit()
    cache.begin_step()
    attention = backbone.layers[0].self_attn
    tokens, positions = torch.tensor([[3], [4]]), torch.tensor([[1], [1]])
    with FlopCounterMode(display=False) as counter:
        fused.run(tokens, positions, cache, lambda index, hidden, call: act(KEYS, cache, hidden, call, None))
    around = [m for m in (backbone.project, getattr(backbone.body, "project_in", None)) if m is not None]
    weights = [m.weight.numel() for m in (attention.k_proj, attention.v_proj, *around)]
    assert counter.get_total_flops() == 2 * len(tokens) * sum(weights)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.integers(1, 5), st.sampled_from([1, 7, 64, 576]), st.floats(-6, 4), st.sampled_from([1e-6, 1e-5, 1e-2]))
@torch.inference_mode()
def test_the_norm_of_float32_states_is_as_exact_as_the_stock_one(rows, width, size, eps):
    """The stock module computes in float32 whatever the type, so that only here another formula can stand for it."""
    generator = torch.Generator().manual_seed(width)
    module = LlamaRMSNorm(width, eps)
    module.weight.copy_(1 + torch.randn(width, generator=generator))
    hidden = torch.randn(rows, width, generator=generator) * 10**size
    exact = hidden.double() / (hidden.double().square().mean(-1, keepdim=True) + eps).sqrt() * module.weight.double()
    assert torch.allclose(RMSNorm(module)(hidden).double(), exact, rtol=1e-6, atol=0)
    assert torch.allclose(RMSNorm(module)(hidden), module(hidden), rtol=2e-6, atol=0)
    assert torch.equal(RMSNorm(module.double())(hidden.double()), module(hidden.double()))
    assert torch.equal(RMSNorm(module.bfloat16())(hidden.bfloat16()), module(hidden.bfloat16()))
