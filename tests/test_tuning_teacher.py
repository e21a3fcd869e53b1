"""Teacher forcing gives what cache-free decoding gives, for every method; and each layer's agreement with the last."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from helpers.engine import KINDS, METHOD_FORMS, close, drawn_method, prompts_of, tiny
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import EarlyExit, load_method
from harness.backbone.tiny import tiny_prompts
from harness.decoding import oracle_decode
from harness.training.batches import Pair, collate
from harness.tuning.agreement import layer_agreement
from harness.tuning.teacher import TeacherForced, method_logits, teacher_forced


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", METHOD_FORMS)
@settings(max_examples=2, deadline=None)
@given(data=st.data())
def test_it_equals_the_oracle_on_a_ragged_batch(name, kind, data):
    backbone = tiny(kind)
    method = data.draw(drawn_method(name, backbone.num_layers))
    prompts = prompts_of(*tiny_prompts([3, 6, 4]))
    lengths = [6, 6, 6] if name in ("calm", "oracle_exit") else [6, 5, 4]  # CALM's threshold depends on the maximum
    outputs = [oracle_decode(backbone, method, p, n, True) for p, n in zip(prompts, lengths, strict=True)]
    pairs = [Pair(p, o.tokens) for p, o in zip(prompts, outputs, strict=True)]
    with torch.inference_mode():
        ours = method_logits(backbone, method, collate(pairs, backbone.pad_id), 5)
    assert close(ours, torch.cat([o.logits for o in outputs]), kind)


@dataclass(frozen=True)
class FewerForThePrompt(EarlyExit):
    kv: str = "propagate"

    @property
    def kv_policy(self):
        return self.kv

    def prompt_layers(self):
        return range(self.num_layers - 2)

    def should_exit(self, layer, state):
        return (state.hidden[:, 0] > 0) & (layer >= 1)


@pytest.mark.parametrize("kv", ["propagate", "oracle"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_prompt_runs_the_layers_that_the_exit_says(kind, kv):
    backbone = tiny(kind)
    method = FewerForThePrompt(backbone.num_layers, kv)
    prompts = prompts_of(*tiny_prompts([3, 6, 4]))
    outputs = [oracle_decode(backbone, method, p, n, True) for p, n in zip(prompts, [6, 6, 1], strict=True)]
    pairs = [Pair(p, o.tokens) for p, o in zip(prompts, outputs, strict=True)]
    for some in (slice(0, 3), slice(2, 3)):  # the last alone: no decode step at all
        with torch.inference_mode():
            ours = method_logits(backbone, method, collate(pairs[some], 0), 5)
        assert close(ours, torch.cat([o.logits for o in outputs[some]]), kind)


def test_means_by_position():
    scores = TeacherForced(
        torch.tensor([0, 1, 2, 0, 1]), torch.tensor([1.0, 2, 3, 3, 4]).double(), torch.tensor([1, 0, 1, 0, 0]).bool()
    )
    assert scores.counts() == [2, 2, 1]
    assert scores.loss_by_position() == [2, 3, 3]
    assert scores.accuracy_by_position() == [50, 0, 100]


@pytest.mark.parametrize("kind", ["llama", "opt_projected"])
def test_agreement_is_what_a_fixed_exit_predicts(kind):
    backbone = tiny(kind)
    pairs = [Pair(p, [5, 7, 9, 11][: 2 + i % 3]) for i, p in enumerate(prompts_of(*tiny_prompts([3, 6, 4, 5, 8])))]
    found = layer_agreement(backbone, pairs, batch_size=2)
    assert found.shape == (backbone.num_layers, 4)
    assert torch.equal(found[-1], torch.ones(4).double())
    batch = collate(pairs, backbone.pad_id)
    choices = []
    for layers in range(1, backbone.num_layers + 1):
        method = load_method("multi_layer", backbone.num_layers, exit_layers=layers)
        with torch.inference_mode():
            choices.append(method_logits(backbone, method, batch, 8).argmax(-1))
    for layer, choice in enumerate(choices):
        for place in range(4):
            at = batch.steps == place
            assert found[layer, place] == pytest.approx(float((choice[at] == choices[-1][at]).double().mean()))
    assert teacher_forced(backbone, load_method("full", backbone.num_layers), pairs, 8).counts() == [5, 5, 3, 1]
