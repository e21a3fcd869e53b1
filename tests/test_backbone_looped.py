"""Looped decoders: one set of weights, a cache a (cycle, layer), every method, and files that cannot be mistaken."""

from __future__ import annotations

import json

import pytest
import torch
from helpers.engine import METHOD_FORMS, drawn_method, oracle_rows, rows_of, tiny
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM

from harness import Backbone, decode, load_method
from harness.backbone import PlanCache
from harness.backbone.builtin import BUILTIN, CYCLES, untrained
from harness.backbone.looped import by_cycles, is_tied, state_to_save, tie_cycles
from harness.backbone.tiny import LOOPED_KINDS, tiny_backbone, tiny_prompts
from harness.backbone.watching import layer_calls
from harness.errors import UsageError

KINDS = list(LOOPED_KINDS)


@pytest.mark.parametrize("kind", KINDS)
def test_a_looped_decoder_is_its_layers_written_out(kind):
    """Against plain PyTorch: the unique layers called R times over, each call one layer of the model."""
    backbone = tiny(kind)
    unique = backbone.num_layers // backbone.num_cycles
    modules = [backbone.layers[i % unique] for i in range(backbone.num_layers)]
    ids, mask = tiny_prompts([7])
    states = []
    handles = [m.register_forward_hook(lambda *x: states.append(x[2])) for m in backbone.layers]
    with torch.no_grad():
        logits = backbone.model(ids, attention_mask=mask).logits
    for handle in handles:
        handle.remove()
    unlooped = tiny_backbone(kind)
    del unlooped.config.num_cycles
    body = unlooped.body._modules[unlooped.layers_attribute]
    for index, module in enumerate(modules):  # the very modules, called again
        body[index].load_state_dict(module.state_dict())
    with torch.no_grad():
        assert torch.equal(Backbone(unlooped.model).model(ids, attention_mask=mask).logits, logits)
    assert len(states) == backbone.num_layers


@pytest.mark.parametrize("kind", KINDS)
def test_weights_are_counted_and_trained_once(kind):
    backbone = tiny_backbone(kind)
    unique = backbone.num_layers // backbone.num_cycles
    layers = sum(p.numel() for p in backbone.layers[0].parameters())
    others = backbone.num_parameters - unique * layers
    config = tiny_backbone(kind).config
    assert others == tiny_backbone(kind.removeprefix("looped_"), config.num_hidden_layers).num_parameters - (
        backbone.num_layers * layers
    )
    optimizer = torch.optim.SGD(backbone.model.parameters(), lr=0.1)
    ids, _ = tiny_prompts([6])
    backbone.model(ids, labels=ids).loss.backward()
    optimizer.step()
    assert is_tied(backbone.model)
    state = backbone.model.state_dict()
    name = next(n for n, _ in backbone.layers[0].named_parameters())
    first, second = (dict(backbone.layers[i].named_parameters())[name] for i in (0, unique))
    assert first is second and len(state) > 0


@pytest.mark.parametrize("form", METHOD_FORMS)
@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_every_method_decodes_it_layer_by_layer(form, data):
    """Each (cycle, layer) pair is a layer to skip or to leave at; hooks on the modules see the same."""
    backbone = tiny(data.draw(st.sampled_from(KINDS)))
    method = data.draw(drawn_method(form, backbone.num_layers))
    prompts = tiny_prompts(
        data.draw(st.lists(st.integers(1, 6), min_size=1, max_size=2)), data.draw(st.integers(0, 99))
    )
    with layer_calls(backbone) as passes:
        out = decode(backbone, method, *prompts, 5)
    assert rows_of(out) == oracle_rows(backbone, method, *prompts, 5)
    if method.kv_policy == "closed":
        assert passes == [out.prompt_layers, *out.layers_run]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("looped")
    model = untrained("nano-looped-opt", 300)
    model.save_pretrained(path, state_dict=state_to_save(model))
    return path


def test_files_hold_the_loop_and_plain_transformers_reads_the_same_function(folder):
    backbone = Backbone.load(str(folder))
    assert (backbone.num_cycles, backbone.num_layers) == (2, 4) and is_tied(backbone.model)
    assert json.loads((folder / "config.json").read_text())["num_cycles"] == 2
    plain = AutoModelForCausalLM.from_pretrained(folder)
    ids = torch.randint(3, 300, (2, 9), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        assert torch.equal(plain(ids).logits, backbone.model(ids).logits)
        assert torch.equal(untrained("nano-looped-opt", 300)(ids).logits, plain(ids).logits)
    with pytest.raises(UsageError, match="its cycles do not share their weights; load it with"):
        Backbone(plain)
    tie_cycles(plain)
    assert (
        Backbone(plain).num_parameters
        == backbone.num_parameters
        < sum(t.numel() for t in state_to_save(plain).values())
    )


def test_cycles_that_differ_are_not_taken_for_one_set_of_weights(folder, tmp_path):
    plain = AutoModelForCausalLM.from_pretrained(folder)
    with torch.no_grad():
        plain.model.decoder.layers[3].fc1.bias[0] += 1  # fine-tuned elsewhere, where nothing was tied
    plain.save_pretrained(tmp_path)
    with pytest.raises(UsageError, match=r"layers 1 and 3 have different weights \(fc1.bias\); take num_cycles out"):
        Backbone.load(str(tmp_path))


@pytest.mark.parametrize("cycles", [3, 0, True, "2"])
def test_cycles_that_do_not_divide_the_layers(cycles):
    backbone = tiny_backbone("opt", 4)
    backbone.config.num_cycles = cycles
    with pytest.raises(UsageError, match="4 layers do not divide into num_cycles="):
        Backbone(backbone.model)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_weights_stay_shared_in_another_dtype(folder, dtype):
    assert is_tied(Backbone.load(str(folder)).model.to(dtype))


@pytest.mark.parametrize("name", CYCLES)
def test_built_in_names_say_what_they_are(name):
    _, layers, *_ = BUILTIN[name]
    model = untrained(name, 300)
    assert (model.config.num_cycles, model.config.num_hidden_layers) == (CYCLES[name], layers)
    if "x" in name:
        unique, cycles = map(int, name.rpartition("-")[2].split("x"))
        assert (unique * cycles, cycles) == (layers, CYCLES[name])
    shapes = [(BUILTIN[n], CYCLES.get(n)) for n in BUILTIN]
    assert len({repr(shape) for shape in shapes}) == len(shapes)  # no two names for one thing


def test_a_cache_seen_by_cycles():
    cache = PlanCache([2, 3], [5] * 6)
    for layer in range(6):
        states = torch.arange(2 * 3.0).reshape(2, 1, 3, 1) + 100 * layer
        cache.update(states, -states, layer)
    cache.commit()
    other = by_cycles(cache, 3)
    assert other.lengths == [2, 3] * 3 and len(other.keys) == 2 and other.nbytes == cache.nbytes
    for layer in range(6):
        cycle, unique = divmod(layer, 2)
        for ours, theirs in ((other.keys, cache.keys), (other.values, cache.values)):
            assert torch.equal(ours[unique][2 * cycle : 2 * cycle + 2], theirs[layer])


def test_a_method_made_for_the_unique_layers_is_refused():
    backbone = tiny("looped_opt")
    with pytest.raises(UsageError, match="made for 2 layers, but model 'tiny-looped_opt' has 6"):
        decode(backbone, load_method("full", 2), *tiny_prompts([3]))
