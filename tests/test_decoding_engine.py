"""The trace, holes, propagation and exits of the decode loop, looked at from inside."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import pytest
import torch
from helpers.engine import KINDS, ScriptedExit, decoded, oracle_rows, rows_of, tiny
from torch import nn

from harness import Backbone, EarlyExit, LayerSchedule, decode, load_method
from harness.backbone import MissingKV
from harness.backbone.tiny import tiny_backbone, tiny_prompts
from harness.backbone.watching import changes, snapshot
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


# T01
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


# T02
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
    assert out.prompt_layers == [0, 2, 5] and set(map(tuple, out.layers_run)) == {(0, 2, 5)}
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


# T02, T03
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


# T05
def test_the_prompt_runs_every_layer_and_is_no_decode_step():
    for name in ("skipdecode", "unified", "random_skip"):
        out = decoded(tiny("llama"), name, *tiny_prompts([4, 5]), target=2)
        assert out.prompt_layers == list(range(8))
        assert len(out.layers_run) == out.layers_needed.shape[1] == out.tokens.shape[1] - 1 == out.timing.steps
    out = decoded(tiny("llama"), "multi_layer", *tiny_prompts([4, 5]), exit_layers=3)
    assert out.prompt_layers == [0, 1, 2] and set(map(tuple, out.layers_run)) == {(0, 1, 2)}


def test_a_batch_runs_what_its_slowest_row_needs():
    backbone = tiny("llama")
    method = ScriptedExit(backbone.num_layers, [2, 3, 4, 6])
    out = decode(backbone, method, *tiny_prompts([3, 5, 4, 6]), 4, force_length=True)
    assert out.layers_run == [[0, 1, 2, 3, 4, 5]] * 3
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


# T10
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
