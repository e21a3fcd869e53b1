"""Decoding with fused layers: what comes out, what ran."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import pytest
import torch
from helpers.engine import drawn_method, oracle_rows, rows_of
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from harness import Backbone, EarlyExit, decode, load_method
from harness.backbone import fused_layers
from harness.backbone.tiny import tiny_backbone, tiny_prompts
from harness.backbone.watching import changes, layer_calls, snapshot

KINDS = ["opt", "opt_projected", "llama", "qwen2"]


@pytest.fixture
def fused_calls(monkeypatch):
    """Layers that computed attention in fused form, in order; counted where the attention itself is called."""
    calls = []
    attend = fused_layers.scaled_dot_product_attention

    def counting(*args, **kwargs):
        calls.append("attention")
        return attend(*args, **kwargs)

    monkeypatch.setattr(fused_layers, "scaled_dot_product_attention", counting)
    return calls


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=8, deadline=None, derandomize=True)
@given(data=st.data())
def test_fused_decoding_equals_the_oracle_and_its_trace_what_ran(kind, data):
    backbone = tiny_backbone(kind)
    name = data.draw(st.sampled_from(["full", "skipdecode", "unified", "calm", "random_skip"]))
    method = data.draw(drawn_method(name, backbone.num_layers))
    ids, mask = tiny_prompts(data.draw(st.lists(st.integers(1, 7), min_size=1, max_size=4)))
    calls, steps = [], [0]
    backbone.lm_head.register_forward_pre_hook(lambda *_: steps.append(len(calls)))
    with pytest.MonkeyPatch.context() as patch:
        attend = fused_layers.scaled_dot_product_attention
        patch.setattr(fused_layers, "scaled_dot_product_attention", lambda *a, **k: calls.append(0) or attend(*a, **k))
        out = decode(backbone, method, ids, mask, 8)
    assert len(calls) == sum(map(len, out.layers_run))
    assert rows_of(out) == oracle_rows(backbone, method, ids, mask, 8)


@dataclass(frozen=True)
class Breaks(EarlyExit):
    """Fails at the third decode step."""

    def should_exit(self, layer, state):
        if state.step == 3 and layer == 1:
            raise RuntimeError("broken off")
        return torch.zeros(len(state.hidden), dtype=torch.bool)


@pytest.mark.parametrize("kind", KINDS)
def test_the_model_is_as_before_also_after_an_exception(kind, fused_calls):
    backbone = tiny_backbone(kind)
    ids, mask = tiny_prompts([4, 7])
    before = snapshot(backbone)
    decode(backbone, load_method("full", backbone.num_layers), ids, mask, 5)
    assert fused_calls and changes(before, snapshot(backbone)) == ""
    with pytest.raises(RuntimeError, match="broken off"):
        decode(backbone, Breaks(backbone.num_layers), ids, mask, 8, force_length=True)
    assert changes(before, snapshot(backbone)) == ""
    assert all("forward" not in vars(module) for module in backbone.model.modules())


def double_in_place(model: nn.Module) -> None:
    for parameter in model.parameters():
        parameter.data.mul_(1.5)  # leaves no trace in the parameter's version


def optimizer_step(model: nn.Module) -> None:
    model(input_ids=torch.tensor([[3, 4, 5]]), labels=torch.tensor([[3, 4, 5]])).loss.backward()
    torch.optim.AdamW(model.parameters(), lr=0.3, fused=True).step()


def other_state(model: nn.Module) -> None:
    model.load_state_dict({name: 1.3 * weight for name, weight in model.state_dict().items()})


def other_tensors(model: nn.Module) -> None:
    state = {name: 0.7 * weight for name, weight in model.state_dict().items()}
    model.load_state_dict(state, assign=True)


def other_module(model: nn.Module) -> None:
    attention = next(m for m in model.modules() if hasattr(m, "v_proj"))
    attention.v_proj = copy.deepcopy(attention.v_proj)
    attention.v_proj.weight.data.normal_(generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("change", [double_in_place, optimizer_step, other_state, other_tensors, other_module])
@pytest.mark.parametrize("kind", ["opt", "qwen2"])
def test_changed_weights_are_never_missed(kind, change, fused_calls):
    backbone = tiny_backbone(kind)
    full, prompts = load_method("full", backbone.num_layers), tiny_prompts([4, 7, 2])
    was = rows_of(decode(backbone, full, *prompts, 12, force_length=True))
    change(backbone.model)
    fused_calls.clear()
    now = rows_of(decode(backbone, full, *prompts, 12, force_length=True))
    assert fused_calls and now != was
    assert now == oracle_rows(backbone, full, *prompts, 12, force_length=True)


def test_a_model_that_moves_to_another_type_stays_fused(fused_calls):
    backbone = tiny_backbone("llama")
    full, prompts = load_method("full", backbone.num_layers), tiny_prompts([4, 7])
    decode(backbone, full, *prompts, 4)
    Backbone(backbone.model.float())  # in place: the first backbone's model too
    fused_calls.clear()
    out = decode(backbone, full, *prompts, 4, force_length=True)
    assert len(fused_calls) == 3 * 8 and {q.weight.dtype for q in backbone.fused_weights.values()} == {torch.float32}
    assert out.kv_bytes == 8 * 2 * 2 * 1 * (7 + 3) * 8 * 4  # layers, keys and values, rows, head, slots, width, bytes


@pytest.mark.parametrize("kind", KINDS)
def test_hooks_on_layers_see_every_call(kind, fused_calls):
    backbone = tiny_backbone(kind)
    method = load_method("skipdecode", backbone.num_layers, min_layers=2, max_layers=4, max_length=8)
    prompts = tiny_prompts([4, 7])
    plain = decode(backbone, method, *prompts, 8, force_length=True)
    assert len(fused_calls) == sum(map(len, plain.layers_run))
    with layer_calls(backbone) as passes:
        watched = decode(backbone, method, *prompts, 8, force_length=True)
    assert [list(range(backbone.num_layers)), *watched.layers_run] == passes and watched.layers_run == plain.layers_run
    assert watched.tokens.tolist() == plain.tokens.tolist()
    assert len(fused_calls) == sum(map(len, plain.layers_run))  # none of the watched calls was fused
