"""The trace, holes, propagation and exits of the decode loop, looked at from inside."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import pytest
import torch
from helpers.engine import KINDS, ScriptedExit, close, decoded, oracle_rows, rows_of, tiny
from torch import nn

from harness import Backbone, EarlyExit, LayerSchedule, decode, load_method
from harness.backbone import MissingKV, gates
from harness.backbone.tiny import tiny_backbone, tiny_prompts
from harness.backbone.watching import changes, snapshot
from harness.decoding.loop import decode_one_token, make_stepper, prefill
from harness.decoding.prompts import left_padded
from harness.errors import UsageError


@dataclass(frozen=True)
class Alternating(LayerSchedule):
    """Skips layer 3, then layer 0."""

    kv_policy = "closed"

    def layers(self, step):
        return [i for i in range(self.num_layers) if i != (0 if step % 2 else 3)]


@dataclass(frozen=True)
class Propagating(Alternating):
    """The same, with the skipped layers' keys and values written."""

    kv_policy = "propagate"


@dataclass(frozen=True)
class Fixed(LayerSchedule):
    """The layers 0, 2 and 5, for prompt and output."""

    def prompt_layers(self):
        return [0, 2, 5]

    def layers(self, step):
        return [5, 0, 2]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lengths", [[4], [2, 5]])
def test_a_hole_raises_and_propagation_fills_it(kind, lengths):
    backbone = tiny(kind)
    ids, mask = tiny_prompts(lengths)
    with pytest.raises(MissingKV) as caught:
        decode(backbone, Alternating(backbone.num_layers), ids, mask, 6, force_length=True)
    assert (caught.value.layer, caught.value.position) == (0, min(lengths))  # the second step runs layer 0 again
    method = Propagating(backbone.num_layers)
    assert rows_of(decode(backbone, method, ids, mask, 6)) == oracle_rows(backbone, method, ids, mask, 6)


@pytest.mark.parametrize("kind", [k for k in KINDS if tiny(k).num_layers > 5])
def test_a_fixed_plan_equals_a_pruned_copy(kind):
    backbone = tiny(kind)
    pruned = copy.deepcopy(backbone.model)
    body = Backbone(pruned).body
    body._modules[backbone.layers_attribute] = kept = nn.ModuleList([Backbone(pruned).layers[i] for i in (0, 2, 5)])
    for index, layer in enumerate(kept):
        for module in layer.modules():
            if hasattr(module, "layer_idx"):
                module.layer_idx = index
    for name in ("num_hidden_layers", "n_layer"):
        if hasattr(pruned.config, name):
            setattr(pruned.config, name, 3)
    ids, mask = tiny_prompts([4, 7, 5])
    indices = [getattr(m, "layer_idx", None) for m in backbone.model.modules()]
    expected = decoded(Backbone(pruned), "full", ids, mask)
    out = decode(backbone, Fixed(backbone.num_layers), ids, mask, 8)
    assert out.tokens.tolist() == expected.tokens.tolist()
    assert out.prompt_layers == (0, 2, 5) and set(out.layers_run) == {(0, 2, 5)}
    for row in range(3):
        prompt = ids[row : row + 1, mask[row].bool()]
        own = pruned.generate(prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=8, do_sample=False)
        assert own[0, prompt.shape[1] :].tolist() == rows_of(out)[row][0]
    assert [getattr(m, "layer_idx", None) for m in backbone.model.modules()] == indices


class Stop(Exception):
    """Thrown into a running decode."""


@dataclass(frozen=True)
class Breaks(EarlyExit):
    """Fails at the third decode step."""

    def should_exit(self, layer, state):
        if state.step == 3 and layer == 1:
            raise Stop
        return torch.zeros(len(state.hidden), dtype=torch.bool)


@pytest.mark.parametrize("kind", KINDS)
def test_the_model_survives_an_exception_in_mid_decode(kind):
    backbone = tiny(kind)
    ids, mask = tiny_prompts([4, 7])
    before, was = snapshot(backbone), rows_of(decoded(backbone, "full", ids, mask))
    with pytest.raises(Stop):
        decode(backbone, Breaks(backbone.num_layers), ids, mask, 8, force_length=True)
    assert changes(before, snapshot(backbone)) == ""
    assert all("forward" not in vars(module) for module in backbone.model.modules())
    assert rows_of(decoded(backbone, "full", ids, mask)) == was


def test_dropout_is_off_while_decoding_and_comes_back():
    backbone = tiny_backbone("gpt2")
    ids, mask = tiny_prompts([4, 7])
    was = rows_of(decoded(backbone, "full", ids, mask))
    backbone.model.train()
    backbone.layers[1].eval()
    flags = [m.training for m in backbone.model.modules()]
    assert rows_of(decoded(backbone, "full", ids, mask)) == was
    assert [m.training for m in backbone.model.modules()] == flags


def test_the_prompt_runs_every_layer_and_is_no_decode_step():
    for name in ("skipdecode", "unified", "random_skip"):
        out = decoded(tiny("llama"), name, *tiny_prompts([4, 5]), target=2)
        assert out.prompt_layers == tuple(range(8))
        assert len(out.layers_run) == out.layers_needed.shape[1] == out.tokens.shape[1] - 1 == out.timing.steps
    out = decoded(tiny("llama"), "multi_layer", *tiny_prompts([4, 5]), exit_layers=3)
    assert out.prompt_layers == (0, 1, 2) and set(out.layers_run) == {(0, 1, 2)}


def test_a_batch_runs_what_its_slowest_row_needs():
    backbone = tiny("llama")
    method = ScriptedExit(backbone.num_layers, [2, 3, 4, 6])
    out = decode(backbone, method, *tiny_prompts([3, 5, 4, 6]), 4, force_length=True)
    assert out.layers_run == [(0, 1, 2, 3, 4, 5)] * 3
    assert out.layers_needed.tolist() == [[2] * 3, [3] * 3, [4] * 3, [6] * 3]
    assert out.layers_needed.double().mean() == 3.75
    assert out.head_checks == [0, 0, 0]


def test_a_head_is_counted_once_a_layer_and_step():
    backbone = tiny("opt")
    ids, mask = tiny_prompts([3, 5])
    calm = {"confidence": "softmax", "threshold": 1.0}
    assert set(decoded(backbone, "calm", ids, mask, **calm).head_checks) == {5}
    assert set(decoded(backbone, "calm", ids, mask, **calm, min_exit_layer=3).head_checks) == {3}
    assert set(decoded(backbone, "calm", ids, mask, **calm, exit_interval=2).head_checks) == {3}
    assert set(decoded(backbone, "calm", ids, mask, threshold=1.0).head_checks) == {0}


# -- propagation: each deeper layer's own keys and values of the exit state ------------------------------------------


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
        import importlib

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
    prompts = left_padded(*tiny_prompts(lengths), 0)
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
    prompts = left_padded(*tiny_prompts(lengths), 0)
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


@pytest.mark.parametrize("kind", KINDS)
def test_exiting_at_the_last_layer_is_the_full_model(kind):
    backbone = tiny(kind)
    ids, mask = tiny_prompts([4, 6])
    full = rows_of(decoded(backbone, "full", ids, mask))
    never = ScriptedExit(backbone.num_layers, [backbone.num_layers] * 2)
    for method in (never, load_method("multi_layer", backbone.num_layers, exit_layers=backbone.num_layers)):
        out = decode(backbone, method, ids, mask, 8, force_length=True)
        for row, (tokens, _) in enumerate(full):
            assert out.tokens[row, : len(tokens)].tolist() == tokens


def test_policies_that_do_not_exist_are_refused():
    @dataclass(frozen=True)
    class Hopeful(Alternating):
        kv_policy = "oracle"

    with pytest.raises(UsageError, match="unknown kv_policy"):
        decode(tiny("llama"), Hopeful(8), *tiny_prompts([3]))


@pytest.mark.parametrize("kind", KINDS)
def test_oracle_exit_keeps_every_token_and_needs_no_more_than_it_must(kind):
    backbone = tiny(kind)
    ids, mask = tiny_prompts([4, 6, 3])
    out = decoded(backbone, "oracle_exit", ids, mask)
    full = decoded(backbone, "full", ids, mask)
    assert out.tokens.tolist() == full.tokens.tolist() and out.layers_run == full.layers_run
    live = out.layers_needed[out.layers_needed > 0]
    assert live.min() < backbone.num_layers and live.max() <= backbone.num_layers


def test_hindsight_and_a_missing_classifier_are_clear_errors():
    @dataclass(frozen=True)
    class Prophet(EarlyExit):
        def should_exit(self, layer, state):
            return state.last_logits().argmax(-1) == state.logits().argmax(-1)

    with pytest.raises(UsageError, match="known only under kv_policy"):
        decode(tiny("llama"), Prophet(8), *tiny_prompts([3]))
    bare = Backbone(tiny("llama").model, name="bare")
    with pytest.raises(UsageError, match="model 'bare' has no exit classifier"):
        decode(bare, load_method("calm", 8, confidence="classifier"), *tiny_prompts([3]))
    with pytest.raises(UsageError, match=r"has shape \[17\], not \[16\]"):
        Backbone(tiny("llama").model, exit_classifier=torch.zeros(16))
