"""A model folder is loaded whole or refused in one line: never with weights made up."""

import json

import pytest
from transformers import LlamaConfig, LlamaForCausalLM

from harness import Backbone
from harness.backbone.watching import changes, snapshot
from harness.errors import UsageError

SIZES = {"vocab_size": 32, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2}


@pytest.fixture
def folder(tmp_path):
    """A complete tiny LLaMA."""
    LlamaForCausalLM(LlamaConfig(**SIZES)).save_pretrained(tmp_path)
    return tmp_path


def configured(folder, **changed):
    path = folder / "config.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **changed}))


def test_a_complete_folder_loads(folder):
    assert Backbone.load(folder).num_layers == Backbone.load(str(folder)).num_layers == 2


@pytest.mark.parametrize("changed", [{"num_hidden_layers": 3}, {"intermediate_size": 40}, {"model_type": "mamba"}])
def test_weights_that_are_not_there_are_not_made_up(folder, changed):
    configured(folder, **changed)
    with pytest.raises(UsageError, match="not complete|cannot be loaded"):
        Backbone.load(str(folder))


@pytest.mark.parametrize("length", [0, 7, 300])
def test_damaged_weights_are_named(folder, length):
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:length])
    with pytest.raises(UsageError, match="cannot be loaded"):
        Backbone.load(str(folder))


def test_a_damaged_tokenizer_is_not_no_tokenizer(folder):
    (folder / "tokenizer.json").write_text("{")
    with pytest.raises(UsageError, match="tokenizer in .* cannot be read"):
        Backbone.load(str(folder))


def test_a_file_that_is_no_gguf(tmp_path):
    pytest.importorskip("gguf")
    (tmp_path / "model.gguf").write_bytes(b"GGUFxx")
    with pytest.raises(UsageError, match="cannot be loaded"):
        Backbone.load(str(tmp_path / "model.gguf"))


@pytest.mark.parametrize("device", ["gpu", "cuda:9", "cpu:x"])
def test_a_device_that_is_not_there(device):
    with pytest.raises(UsageError, match="no device"):
        Backbone.load("nano-opt", device=device)


@pytest.mark.parametrize("name", [None, 3, b"nano-opt"])
def test_a_name_that_is_none(name):
    with pytest.raises(UsageError, match="named by a text or a path"):
        Backbone.load(name)


def test_a_hook_left_behind_is_seen():
    backbone = Backbone.load("nano-opt")
    before = snapshot(backbone)
    assert not changes(before, snapshot(backbone))
    handle = backbone.layers[0].register_forward_hook(lambda *_: None)
    assert "_forward_hooks" in changes(before, snapshot(backbone))
    handle.remove()
    assert not changes(before, snapshot(backbone))


def test_a_buffer_written_in_place_is_seen_though_no_file_holds_it():
    backbone = Backbone.load("tiny-llama")
    before = snapshot(backbone)
    backbone.body.rotary_emb.inv_freq.mul_(2)
    assert "inv_freq" in changes(before, snapshot(backbone))
