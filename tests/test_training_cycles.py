"""Looped decoders are trained at the ends of their cycles, and one checkpoint serves both ways of decoding them."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from torch.nn.functional import cross_entropy

from harness import Backbone, load_method, load_task
from harness.backbone.looped import is_tied
from harness.backbone.tiny import LOOPED_KINDS, tiny_backbone
from harness.errors import UsageError
from harness.training import Checkpoints, Recipe
from harness.training.batches import Pair, collate
from harness.training.objectives import make_loss
from harness.training.setting import Setting

RAGGED = [Pair([5, 6, 7, 8, 9], [10, 11, 12, 13, 2]), Pair([7, 7], [9, 2]), Pair([4], [3, 4, 5, 6, 7, 8, 2])]
LOOPED = Setting(
    model="nano-looped-opt",
    task=load_task("e2e", "stand-in"),
    seed=0,
    base=Recipe(3, 4),
    own=Recipe(2, 4),
    vocab_size=400,
    max_prompt_tokens=48,
    max_output_tokens=12,
)
PLAIN = dataclasses.replace(LOOPED, model="nano-opt")


@pytest.mark.parametrize("kind", LOOPED_KINDS)
def test_the_loss_is_the_weighted_one_of_each_cycle_run_alone(kind):
    """Against models of 1, 2, … cycles, one pair at a time: weight c / (1 + ... + R)."""
    backbone = tiny_backbone(kind)
    cycles, unique = backbone.num_cycles, backbone.num_layers // backbone.num_cycles
    loss = make_loss(backbone, {"objective": "cycles"}, 0)(collate(RAGGED, 0), 0)
    expected = torch.zeros((), dtype=torch.float64)
    for cycle in range(1, cycles + 1):
        body = backbone.body
        kept, body._modules[backbone.layers_attribute] = backbone.layers, backbone.layers[: cycle * unique]
        logits, targets = [], []
        for prompt, output in RAGGED:
            ids = torch.tensor([prompt + output[:-1]])
            logits.append(backbone.model(ids, use_cache=False).logits[0, len(prompt) - 1 :])
            targets += output
        body._modules[backbone.layers_attribute] = kept
        expected += cycle / sum(range(1, cycles + 1)) * cross_entropy(torch.cat(logits).float(), torch.tensor(targets))
    assert torch.allclose(loss.double(), expected, atol=1e-5)


def test_a_model_that_is_not_looped_has_no_cycles():
    with pytest.raises(UsageError, match="'cycles' trains looped decoders, and model 'tiny-opt' is not looped"):
        make_loss(tiny_backbone("opt"), {"objective": "cycles"}, 0)


def test_objectives_of_other_models_are_as_they_were():
    for method in ("full", "unified", "skipdecode"):
        target = {} if method == "full" else {"target": 2.0}
        recipe = load_method(method, 4, **target, lengths=None).recipe(11)
        assert PLAIN.trained_for(recipe) is recipe
    schedule = load_method("unified", 4, target=2.0).recipe(11)
    assert LOOPED.trained_for(schedule) is schedule
    assert LOOPED.trained_for({"objective": "multi_exit"}) == {"objective": "multi_exit"}


def test_sequential_and_pipelined_decoding_share_a_checkpoint(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    full, speed = (load_method(name, 4).recipe(11) for name in ("full", "speed"))
    assert checkpoints.own_key(LOOPED, full) == checkpoints.own_key(LOOPED, speed)
    assert checkpoints.own_key(PLAIN, full) != checkpoints.own_key(PLAIN, speed)
    own = checkpoints.own(LOOPED, full, "full")
    assert own.training["objective"] == "cycles" and own.training["model"] == "nano-looped-opt"
    backbone = Backbone.load(own.path)
    assert backbone.num_cycles == 2 and is_tied(backbone.model)
    base = Backbone.load(checkpoints.base(LOOPED).path)
    assert not torch.equal(base.layers[0].fc1.weight, backbone.layers[0].fc1.weight)  # the cycles were trained
