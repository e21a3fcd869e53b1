"""The training forward of a plan is the decoding of that plan."""

import random

import pytest
import torch
from torch.nn.functional import cross_entropy

from harness import load_method
from harness.backbone.tiny import TINY_KINDS, tiny_backbone
from harness.decoding.oracle import _whole_sequence
from harness.errors import UsageError
from harness.method import LayerSchedule
from harness.training.batches import Pair, collate
from harness.training.objectives import exit_weights, layer_columns, make_loss, multi_exit_loss, plan_logits

RAGGED = [Pair([5, 6, 7, 8, 9], [10, 11, 12, 13, 2]), Pair([7, 7], [9, 2]), Pair([4], [3, 4, 5, 6, 7, 8, 2])]


def _methods(num_layers):
    horizon = {"prompt_size": 4, "max_length": 9}
    yield load_method("full", num_layers)
    yield load_method("multi_layer", num_layers, exit_layers=2)
    yield load_method("skipdecode", num_layers, min_layers=2, max_layers=num_layers, **horizon)
    yield load_method("skipdecode", num_layers, min_layers=1, max_layers=4, mode="terminate", **horizon)
    yield load_method("unified", num_layers, target=2)
    yield load_method("random_skip", num_layers, target=2, like="skipdecode", **horizon)


@pytest.mark.parametrize("kind", TINY_KINDS)
def test_training_under_a_plan_sees_what_decoding_sees(kind):
    """Sliced, left-padded, aligned batches against one unpadded row at a time under a per-position plan."""
    backbone = tiny_backbone(kind)
    batch = collate(RAGGED, backbone.pad_id)
    for method in _methods(backbone.num_layers):
        objective = LayerSchedule.recipe(method, 7)
        with torch.no_grad():
            logits = plan_logits(backbone, objective, batch)
            rows = []
            for prompt, output in RAGGED:
                columns = [set(method.prompt_layers())] * len(prompt)
                columns += [set(method.layers(step)) for step in range(1, len(output))]
                hidden = _whole_sequence(backbone, prompt + output[:-1], columns)
                rows.append(backbone.head(hidden[len(prompt) - 1 :]))
        # BLOOM computes its attention weights in float32 whatever the weights' type
        torch.testing.assert_close(logits, torch.cat(rows), rtol=0, atol=1e-5 if kind == "bloom" else 1e-9)


@pytest.mark.parametrize("kind", [kind for kind in TINY_KINDS if kind != "bloom"])
def test_outputs_sharing_a_prompt_train_as_if_each_had_its_own(kind):
    backbone = tiny_backbone(kind)
    outputs = ([10, 11, 12, 13, 2], [9, 2], [2], [3, 4, 5, 6, 7, 8, 2], [12, 9, 2])
    some = [Pair(prompt, output) for prompt in ([5, 6, 7, 8, 9], [4]) for output in outputs]
    packed, alone = collate(some, backbone.pad_id, strands=3), collate(some, backbone.pad_id)
    assert packed.input_ids.numel() < alone.input_ids.numel()
    for method in _methods(backbone.num_layers):
        objective = LayerSchedule.recipe(method, 7)
        with torch.no_grad():
            ours, theirs = plan_logits(backbone, objective, packed), plan_logits(backbone, objective, alone)
        _same_rows(_keyed(packed, ours), _keyed(alone, theirs))
    with torch.no_grad():
        losses = [multi_exit_loss(backbone, batch, random.Random(0)) for batch in (packed, alone)]
    torch.testing.assert_close(*losses)


def _keyed(batch, logits):
    """Rows of targets, steps and logits in an order that does not depend on the layout."""
    rows = torch.cat((batch.targets[:, None].double(), batch.steps[:, None].double(), logits.double()), 1)
    return rows[sorted(range(len(rows)), key=lambda i: [round(v, 6) for v in rows[i].tolist()])]


def _same_rows(ours, theirs):
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-9)


def test_layers_that_end_early_are_sliced_away_not_masked():
    backbone = tiny_backbone("opt")
    batch = collate(RAGGED, 0)
    method = load_method("skipdecode", 6, min_layers=2, max_layers=5, prompt_size=0, max_length=6)
    columns = layer_columns(LayerSchedule.recipe(method, 6), 6, batch)
    assert columns[0] == columns[5] == batch.columns
    assert all(isinstance(c, int) for c in columns)
    assert columns[1] < columns[2] < columns[3] <= columns[4] < batch.columns
    assert backbone.num_layers == 6


def test_multi_exit_loss_is_unbiased_and_always_has_the_last_layer():
    rng = random.Random(0)
    total = dict.fromkeys(range(12), 0.0)
    rounds = 4000
    for _ in range(rounds):
        weights = exit_weights(12, rng)
        assert len(weights) == 6 and 11 in weights
        for layer, weight in weights.items():
            total[layer] += weight / rounds
    for layer, mean in total.items():
        assert mean == pytest.approx((layer + 1) / 78, rel=0.1)


def test_multi_exit_loss_weighs_every_layer_of_a_shallow_model():
    backbone = tiny_backbone("llama", num_layers=4)
    batch = collate(RAGGED, 0)
    with torch.no_grad():
        loss = multi_exit_loss(backbone, batch, random.Random(0))
        expected = 0.0
        for layers in range(1, 5):
            plan = LayerSchedule.recipe(load_method("multi_layer", 4, exit_layers=layers), 7)
            logits = plan_logits(backbone, plan, batch)
            expected += layers / 10 * cross_entropy(logits.float(), batch.targets)
    torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-6)


def test_a_list_of_plans_draws_one_a_batch():
    backbone = tiny_backbone("gpt2")
    batch = collate(RAGGED, 0)
    plans = [LayerSchedule.recipe(load_method("unified", 6, target=t), 7) for t in (1, 2, 3)]
    with torch.no_grad():
        each = {round(make_loss(backbone, plan, 0)(batch, 0).item(), 6) for plan in plans}
        drawn = make_loss(backbone, {"objective": "plans", "plans": plans}, 0)
        assert {round(drawn(batch, step).item(), 6) for step in range(40)} == each


def test_unknown_objectives_are_refused():
    with pytest.raises(UsageError, match="unknown training objective 'distil'"):
        make_loss(tiny_backbone("opt"), {"objective": "distil"}, 0)


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ({"prompt": [0], "steps": [[0], [99]]}, "names layer 99, but the model has layers 0 to 5"),
        ({"prompt": [-1], "steps": [[0]]}, "names layer -1"),
        ({"prompt": [0], "steps": [["0"]]}, "names layer '0', but"),
        ({"prompt": [0], "steps": [[0], []]}, "at least one layer"),
        ({"prompt": [], "steps": [[0]]}, "at least one layer"),
        ({"prompt": [0]}, "a plan to train under is"),
        ({"prompt": [0], "steps": [0, 1]}, "a plan to train under is"),
    ],
)
def test_a_plan_that_would_train_other_layers_than_it_says_is_refused(plan, message):
    batch = collate(RAGGED, 0)
    with pytest.raises(UsageError, match=message):
        layer_columns(plan, 6, batch)
    with pytest.raises(UsageError, match=message):  # before the first step, not when it is drawn
        make_loss(tiny_backbone("opt"), {"objective": "plans", "plans": [{"prompt": [0], "steps": [[0]]}, plan]}, 0)
