"""Whole sequences under a plan: exact on ragged batches, with one plan a row, and equal to what decoding computes."""

from __future__ import annotations

import pytest
import torch
from helpers.engine import KINDS, close, prompts_of, tiny
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness import load_method
from harness.backbone import gates, masked_forward
from harness.backbone.tiny import tiny_backbone, tiny_prompts
from harness.decoding.loop import decode_one_token, make_stepper, prefill
from harness.decoding.prompts import left_padded


@pytest.mark.parametrize("kind", KINDS)
@torch.inference_mode()
def test_all_layers_give_the_models_own_logits(kind):
    backbone = tiny(kind)
    ids, mask = tiny_prompts([4, 9, 6])
    states = []
    hidden = masked_forward(backbone, ids, mask, [9] * backbone.num_layers, lambda *seen: states.append(seen))
    assert [layer for layer, _, _ in states] == list(range(backbone.num_layers))
    assert torch.equal(states[1][1], states[0][2])
    for row, prompt in enumerate(prompts_of(ids, mask)):
        real, alone = mask[row].bool(), backbone.model(torch.tensor([prompt])).logits[0]
        assert close(backbone.head(hidden)[row, real], alone, kind)
        assert close(backbone.exit_head(states[-1][2])[row, real], alone, kind)


# T10
@pytest.mark.parametrize("kind", KINDS)
@torch.inference_mode()
def test_the_exit_head_is_norm_then_projection_then_head(kind):
    backbone = tiny(kind)
    assert (backbone.norm is None, backbone.project is not None) == ((kind == "opt_projected",) * 2)
    hidden = torch.randn(3, 16, dtype=torch.float64)
    expected = hidden if backbone.norm is None else backbone.norm(hidden)
    expected = expected if backbone.project is None else backbone.project(expected)
    assert torch.equal(backbone.exit_head(hidden), backbone.lm_head(expected))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=4, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_ragged_rows_under_their_own_plans_equal_each_row_alone(kind, data):
    backbone = tiny(kind)
    lengths = data.draw(st.lists(st.integers(1, 8), min_size=2, max_size=4))
    ids, mask = tiny_prompts(lengths, seed=data.draw(st.integers(0, 99)))
    if data.draw(st.booleans()):  # right padding
        order = torch.argsort(1 - mask, dim=1, stable=True)
        ids, mask = ids.gather(1, order), mask.gather(1, order)
    generator = torch.Generator().manual_seed(data.draw(st.integers(0, 99)))
    plan = [torch.rand(mask.shape, generator=generator) < 0.6 for _ in range(backbone.num_layers)]
    with torch.inference_mode():
        together = masked_forward(backbone, ids, mask, plan)
        for row in range(len(lengths)):
            real = mask[row].bool()
            own = [active[row : row + 1, real] for active in plan]
            alone = masked_forward(backbone, ids[row : row + 1, real], mask[row : row + 1, real], own)
            assert close(together[row, real], alone[0], kind)


@pytest.mark.parametrize("kind", KINDS)
@torch.inference_mode()
def test_columns_that_are_cut_away_equal_columns_that_are_masked(kind):
    backbone = tiny(kind)
    ids, mask = tiny_prompts([4, 9, 6])
    counts = [9, 7, 0, 9, 3, 8, 9, 9][: backbone.num_layers]
    masks = [(torch.arange(9) < count).expand(3, 9) for count in counts]
    real = mask.bool()
    cut = masked_forward(backbone, ids, mask, counts)[real]
    assert close(cut, masked_forward(backbone, ids, mask, masks)[real], kind)


@pytest.mark.parametrize("kind", KINDS)
@torch.inference_mode()
def test_the_training_forward_of_a_plan_equals_decoding_with_the_cache(kind):
    """Teacher-forced: the same tokens through the cache, step by step, and through one masked pass."""
    backbone = tiny(kind)
    lengths, steps = [3, 6, 4], 4
    n = backbone.num_layers
    method = load_method("skipdecode", n, min_layers=2, max_layers=n - 1, prompt_size=0, max_length=5)
    ids, mask = tiny_prompts(lengths)
    outputs = torch.randint(3, 31, (3, steps), generator=torch.Generator().manual_seed(1))
    stepper = make_stepper(backbone, method, lengths, steps + 1)
    with gates(backbone, stepper.visit):
        logits = [prefill(backbone, stepper, left_padded(backbone, ids, mask))]
        logits += [decode_one_token(backbone, stepper, t + 1, outputs[:, t]) for t in range(steps)]
    whole, whole_mask = torch.cat((ids, outputs), 1), torch.cat((mask, torch.ones_like(outputs)), 1)
    active = [[layer in method.layers(t + 1) for t in range(steps)] for layer in range(n)]
    plan = [torch.tensor([True] * ids.shape[1] + columns).expand(3, -1) for columns in active]
    hidden = masked_forward(backbone, whole, whole_mask, plan)
    ours = backbone.head(hidden[:, ids.shape[1] - 1 :])
    assert close(torch.stack(logits, 1), ours, kind)


@pytest.mark.parametrize("kind", ["llama", "opt", "gpt2"])
@torch.inference_mode()
def test_padding_between_tokens_is_seen_by_nobody(kind):
    backbone = tiny(kind)
    prompt, places = [5, 9, 4, 12], [0, 3, 4, 7]
    ids, mask = torch.full((1, 8), 17), torch.zeros(1, 8, dtype=torch.long)
    ids[0, places], mask[0, places] = torch.tensor(prompt), 1
    hidden = masked_forward(backbone, ids, mask, [8] * backbone.num_layers)[0, places]
    alone = backbone.model(torch.tensor([prompt])).logits[0]
    assert close(backbone.head(hidden), alone, kind)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_reach_active_layers_alone(kind):
    backbone = tiny_backbone(kind)
    ids, mask = tiny_prompts([4, 6])
    masked_forward(backbone, ids, mask, [6] + [0] * (backbone.num_layers - 1)).square().sum().backward()
    reached = [any(p.grad is not None for p in layer.parameters()) for layer in backbone.layers]
    assert reached == [True] + [False] * (backbone.num_layers - 1)
    assert all(torch.isfinite(p.grad).all() for p in backbone.layers[0].parameters())
