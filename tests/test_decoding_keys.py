"""The keys and values that decoding leaves: propagated, rolled back, and no longer than their plan."""

from __future__ import annotations

import importlib

import pytest
import torch
from helpers.engine import KINDS, ScriptedExit, close, tiny

from harness import decode, load_method
from harness.backbone import gates
from harness.backbone.tiny import tiny_prompts
from harness.decoding.loop import decode_one_token, make_stepper, prefill
from harness.decoding.prompts import left_padded


def own_keys_and_values(backbone, layer, hidden, position):
    """Keys and values [heads, head width] of one hidden state [width], written out for each family."""
    attention = getattr(layer, "self_attn", None) or getattr(layer, "attn", None)
    attention = attention or getattr(layer, "self_attention", None) or layer.attention
    before = {"llama": "input_layernorm", "qwen2": "input_layernorm", "opt": "self_attn_layer_norm", "gpt2": "ln_1"}
    norm = getattr(layer, before.get(backbone.family, "input_layernorm"))
    if not (backbone.family == "opt" and not backbone.config.do_layer_norm_before):
        hidden = norm(hidden)
    hidden = hidden.view(1, 1, -1)
    width = backbone.config.hidden_size // backbone.config.num_attention_heads
    if backbone.family == "gpt2":
        _, key, value = attention.c_attn(hidden).split(backbone.config.hidden_size, dim=2)
    elif backbone.family in ("bloom", "gpt_neox"):
        fused = attention.query_key_value(hidden).view(1, 1, -1, 3, width)
        key, value = fused[..., 1, :], fused[..., 2, :]
    else:
        key, value = attention.k_proj(hidden), attention.v_proj(hidden)
    key, value = (t.reshape(1, 1, -1, width).transpose(1, 2) for t in (key, value))
    if backbone.family in ("llama", "qwen2", "gpt_neox"):
        rotary = importlib.import_module(type(layer).__module__).apply_rotary_pos_emb
        cos, sin = backbone.body.rotary_emb(hidden, torch.tensor([[position]]))
        _, key = rotary(key, key, cos, sin)
    return key[0, :, 0], value[0, :, 0]


@pytest.mark.parametrize("kind", KINDS)
@torch.inference_mode()
def test_propagation_writes_each_deeper_layers_own_projections(kind):
    backbone = tiny(kind)
    lengths, depths, steps = [3, 6, 4], [2, 4, 1], 3
    method = ScriptedExit(backbone.num_layers, depths)
    stepper = make_stepper(backbone, method, lengths, steps + 1)
    prompts = left_padded(backbone, *tiny_prompts(lengths))
    with gates(backbone, stepper.visit):
        tokens = prefill(backbone, stepper, prompts).argmax(-1)
        for step in range(1, steps + 1):
            tokens = decode_one_token(backbone, stepper, step, tokens).argmax(-1)
            assert stepper.ran == [0, 1, 2, 3]
    compared = 0
    for (step, row), state in method.seen.items():
        position = lengths[row] + step - 1
        for index in range(depths[row], backbone.num_layers):
            key, value = own_keys_and_values(backbone, backbone.layers[index], state, position)
            assert close(stepper.cache.keys[index][row, :, position], key, kind)
            assert close(stepper.cache.values[index][row, :, position], value, kind)
            compared += 1
    assert compared == steps * sum(backbone.num_layers - d for d in depths)


@pytest.mark.parametrize("kind", KINDS)
@torch.inference_mode()
def test_a_rolled_back_cache_equals_one_that_never_went_there(kind):
    backbone = tiny(kind)
    lengths, full = [3, 6], load_method("full", num_layers=backbone.num_layers)
    prompts = left_padded(backbone, *tiny_prompts(lengths))
    wrong, right = torch.tensor([[5, 6, 7], [8, 9, 10]]), torch.tensor([[5, 11, 12], [8, 9, 13]])

    def run(tokens, cache_of=None):
        stepper = cache_of or make_stepper(backbone, full, lengths, 6)
        with gates(backbone, stepper.visit):
            if cache_of is None:
                prefill(backbone, stepper, prompts)
            return stepper, [decode_one_token(backbone, stepper, i + 1, column) for i, column in enumerate(tokens.T)]

    stepper, _ = run(wrong)
    stepper.cache.rollback([4, 8])  # row 0 keeps one token, row 1 two: only there do the continuations agree
    _, late = run(torch.tensor([[11, 12], [13, 3]]), stepper)
    fresh, logits = run(torch.cat((right, torch.tensor([[4], [3]])), dim=1))
    assert close(late[0][0], logits[1][0], kind) and close(late[1][0], logits[2][0], kind)
    assert close(late[0][1], logits[2][1], kind) and close(late[1][1], logits[3][1], kind)
    for layer in range(backbone.num_layers):
        for row, end in ((0, 6), (1, 10)):
            for side in ("keys", "values"):
                ours, theirs = (getattr(s.cache, side)[layer][row, :, :end] for s in (stepper, fresh))
                assert close(ours, theirs, kind)


def test_a_layers_buffer_ends_where_its_plan_does():
    backbone = tiny("llama")  # 8 layers
    parameters = {"min_layers": 2, "max_layers": 8, "prompt_size": 0, "max_length": 9}
    method = load_method("skipdecode", num_layers=8, **parameters)
    stepper = make_stepper(backbone, method, [4, 6], 12)
    last = [max((t for t in range(1, 12) if layer in method.layers(t)), default=0) for layer in range(8)]
    assert stepper.cache.capacities == [6 + step for step in last] and last[0] == last[7] == 11 and min(last) < 5
    ids, mask = tiny_prompts([4, 6])
    narrow = decode(backbone, method, ids, mask, 12, force_length=True)
    assert narrow.kv_bytes < decode(backbone, load_method("full", 8), ids, mask, 12, force_length=True).kv_bytes
    width = 8  # one key/value head of 8 numbers in float64, for two rows
    assert narrow.kv_bytes == sum(6 + step for step in last) * 2 * width * 8 * 2
