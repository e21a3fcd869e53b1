"""Supported families, refusals by name, gates, and a model that stays as it was."""

from __future__ import annotations

import pytest
import torch
import transformers as hf
from helpers.engine import KINDS, tiny
from torch import nn

from harness import Backbone
from harness.backbone import SUPPORTED_FAMILIES, UnsupportedModel, gates
from harness.backbone.tiny import tiny_backbone, tiny_config, tiny_prompts
from harness.backbone.watching import changes, layer_calls, snapshot
from harness.errors import UsageError

SMALL = {"vocab_size": 31, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}


def unsupported():
    """Models that must be refused, and what the message must name."""
    wide = {**SMALL, "intermediate_size": 24, "num_key_value_heads": 1}
    t5 = hf.T5Config(vocab_size=31, d_model=16, d_kv=8, d_ff=24, num_layers=2, num_heads=2)
    t5.decoder_start_token_id = 0
    gpt2_cross = hf.GPT2Config(**SMALL, add_cross_attention=True)
    sliding = hf.Qwen2Config(**wide, use_sliding_window=True, sliding_window=4, max_window_layers=0)
    rope = {"rope_type": "longrope", "long_factor": [1.0] * 4, "short_factor": [1.0] * 4, "rope_theta": 1e4}
    longrope = hf.LlamaConfig(**wide, rope_parameters={**rope, "original_max_position_embeddings": 32})
    return {
        "longrope": (lambda: hf.LlamaForCausalLM(longrope), "llama: longrope is not supported"),
        "mistral": (lambda: hf.MistralForCausalLM(hf.MistralConfig(**wide, sliding_window=4)), "'mistral'"),
        "mixtral": (lambda: hf.MixtralForCausalLM(hf.MixtralConfig(**wide, num_local_experts=2)), "'mixtral'"),
        "t5": (lambda: hf.T5ForConditionalGeneration(t5), "'t5'"),
        "qwen2": (lambda: hf.Qwen2ForCausalLM(sliding), "qwen2: sliding-window attention"),
        "gpt2": (lambda: hf.GPT2LMHeadModel(gpt2_cross), "gpt2: cross-attention"),
        "headless": (lambda: hf.OPTModel(tiny_config("opt")), "OPTModel has no language-model head"),
        "module": (lambda: nn.Linear(2, 2), "'Linear'"),
    }


# T03
@pytest.mark.parametrize("name", ["longrope", "mistral", "mixtral", "t5", "qwen2", "gpt2", "headless", "module"])
def test_what_cannot_be_done_right_is_refused_by_name(name):
    make, named = unsupported()[name]
    with pytest.raises(UnsupportedModel, match=named) as caught:
        Backbone(make())
    assert caught.value.exit_code == 2 and len(str(caught.value).splitlines()) == 1
    if "not supported; supported" in str(caught.value):
        assert all(family in str(caught.value) for family in SUPPORTED_FAMILIES)


def test_the_six_families():
    assert SUPPORTED_FAMILIES == ("llama", "qwen2", "opt", "gpt2", "bloom", "gpt_neox")
    assert {tiny(kind).family for kind in KINDS} == set(SUPPORTED_FAMILIES)


# T03
@pytest.mark.parametrize("kind", KINDS)
def test_opening_a_model_changes_nothing(kind):
    model = hf.AutoModelForCausalLM.from_config(tiny_config(kind))
    attributes = {name: dict(vars(module)) for name, module in model.named_modules()}
    config = model.config.to_dict()
    opened = Backbone(model)
    for name, module in model.named_modules():
        assert vars(module).keys() == attributes[name].keys()
        assert all(vars(module)[key] is value for key, value in attributes[name].items())
    assert model.config.to_dict() == config
    assert opened.layers[0] is getattr(opened.body, opened.layers_attribute)[0]


# T12
@pytest.mark.parametrize("kind", KINDS)
@torch.inference_mode()
def test_gates_nest_and_come_off_exactly(kind):
    backbone = tiny(kind)
    ids, _ = tiny_prompts([4])
    positions = torch.arange(4)[None]
    before, outer, inner = snapshot(backbone), [], []

    def noting(log):
        def visit(index, hidden, call):
            log.append(index)
            return hidden

        return visit

    with gates(backbone, noting(outer)):
        with pytest.raises(ZeroDivisionError), gates(backbone, noting(inner)):
            backbone.run_body(ids, positions)
            1 / 0  # noqa: B018
        backbone.run_body(ids, positions)
    every = list(range(backbone.num_layers))
    assert (outer, inner) == (every, every)
    assert changes(before, snapshot(backbone)) == ""
    assert backbone.layers_attribute not in vars(backbone.body)
    for layer in backbone.layers:
        assert layer.forward.__func__ is type(layer).forward


# T09, T12
@torch.inference_mode()
def test_a_skipped_layer_is_truly_not_called_and_its_hooks_stay():
    backbone = tiny_backbone("llama")
    seen = []
    handle = backbone.layers[1].register_forward_hook(lambda *_: seen.append(1))
    ids, _ = tiny_prompts([4])

    def visit(index, hidden, call):
        return hidden if index % 2 else call(hidden, attention_mask=None)

    with layer_calls(backbone) as passes, gates(backbone, visit):
        backbone.run_body(ids, torch.arange(4)[None])
    assert passes == [[0, 2, 4, 6]] and seen == []
    backbone.model(ids)
    assert seen == [1]
    handle.remove()


def test_names_that_load_nothing_say_what_was_tried(tmp_path):
    for name, message in [
        (str(tmp_path / "none"), "no model folder at"),
        (str(tmp_path / "none.gguf"), "no GGUF file at"),
        (str(tmp_path), "cannot be loaded"),
    ]:
        with pytest.raises(UsageError, match=message):
            Backbone.load(name)
    with pytest.raises(UsageError, match="unknown dtype 'float8'"):
        Backbone.load("nano-opt", dtype="float8")


def test_built_in_and_saved_models_load(tmp_path):
    nano = Backbone.load("nano-opt", dtype="float64")
    assert (nano.num_layers, nano.dtype, nano.max_positions, nano.eos_ids) == (4, torch.float64, 1024, (2,))
    assert nano.name == "nano-opt (untrained)" and not nano.model.training
    assert torch.equal(nano.lm_head.weight, Backbone.load("nano-opt", dtype="float64").lm_head.weight)
    nano.model.save_pretrained(tmp_path / "saved")
    saved = Backbone.load(str(tmp_path / "saved"), dtype="float64")
    assert saved.name == "saved" and torch.equal(saved.lm_head.weight, nano.lm_head.weight)
    with pytest.raises(UsageError, match="has no tokenizer"):
        saved.require_tokenizer()
