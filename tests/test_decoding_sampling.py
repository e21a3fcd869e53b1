"""Sampling: seeded, independent of the batch, and top-p as by brute force."""

from __future__ import annotations

import pytest
import torch
from helpers.engine import rows_of, tiny
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import decode, load_method
from harness.backbone.tiny import tiny_backbone, tiny_prompts
from harness.decoding import oracle_decode
from harness.decoding.sampling import Sampling, likeliest
from harness.errors import SkipbenchError


def nucleus(probabilities: list[float], top_p: float) -> list[int]:
    """The smallest set of most probable tokens whose mass reaches top_p, most probable first."""
    kept, mass = [], 0.0
    for token in sorted(range(len(probabilities)), key=lambda t: -probabilities[t]):
        kept.append(token)
        mass += probabilities[token]
        if mass >= top_p:
            break
    return kept


@given(
    st.lists(st.lists(st.sampled_from([-1.0, 0.0, -0.0, 2.5, float("inf"), float("-inf"), float("nan")]), min_size=5,
                      max_size=5), min_size=1, max_size=4),
    st.sampled_from([torch.float32, torch.float64, torch.bfloat16, torch.float16]),
)  # fmt: skip
def test_the_likeliest_is_what_argmax_says_ties_and_no_numbers_included(rows, dtype):
    logits = torch.tensor(rows, dtype=dtype)
    with torch.inference_mode():
        found = likeliest(logits)
        assert found.dtype == torch.long and found.tolist() == logits.argmax(-1).tolist()
        assert likeliest(logits[:, None, ::2]).tolist() == logits[:, None, ::2].argmax(-1).tolist()


@settings(max_examples=80, deadline=None, derandomize=True)
@given(
    logits=st.lists(st.floats(-6, 6), min_size=2, max_size=12, unique=True),
    temperature=st.floats(0.2, 3),
    top_p=st.floats(0.05, 0.999),
    draw=st.floats(0, 1, exclude_max=True),
)
def test_top_p_equals_brute_force(logits, temperature, top_p, draw):
    exponents = [torch.tensor(x / temperature, dtype=torch.float64).exp().item() for x in logits]
    probabilities = [e / sum(exponents) for e in exponents]
    kept = nucleus(probabilities, top_p)
    target, reached, expected = draw * sum(probabilities[t] for t in kept), 0.0, kept[-1]
    for token in kept:
        reached += probabilities[token]
        if reached > target:
            expected = token
            break
    picked = Sampling(temperature, top_p).pick(torch.tensor([logits]), torch.tensor([draw], dtype=torch.float64))
    near = abs(reached - target) < 1e-6  # on a boundary either side is right, float32 logits being what they are
    assert int(picked) == expected or (near and int(picked) in kept)


def test_draws_follow_the_probabilities():
    logits = torch.tensor([[2.0, 1.0, 0.0, -1.0]]).repeat(20_000, 1)
    draws = torch.rand(20_000, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    seen = torch.bincount(Sampling(1.0, 1.0).pick(logits, draws), minlength=4) / 20_000
    assert torch.allclose(seen, logits[0].softmax(-1), atol=0.015)
    seen = torch.bincount(Sampling(1.0, 0.8).pick(logits, draws), minlength=4) / 20_000
    assert seen[2:].sum() == 0 and abs(seen[0] - 1 / (1 + torch.e**-1)) < 0.015


@pytest.mark.parametrize(
    "name, parameters", [("full", {}), ("calm", {"threshold": 0.8}), ("skipdecode", {"target": 2})]
)
def test_sampling_is_seeded_and_knows_no_batch_mates(name, parameters):
    backbone = tiny("opt")
    method = load_method(name, num_layers=backbone.num_layers, **parameters)
    ids, mask = tiny_prompts([3, 6, 4, 5])

    def sample(rows, seed):
        return rows_of(decode(backbone, method, ids[rows], mask[rows], 8, temperature=1.5, top_p=0.9, seed=seed))

    rows = sample([0, 1, 2, 3], 7)
    assert sample([0, 1, 2, 3], 7) == rows != sample([0, 1, 2, 3], 8)
    assert [sample([r], 7 + r)[0] for r in range(4)] == rows
    assert sample([3, 1], [10, 8]) == [rows[3], rows[1]]


def test_a_low_temperature_is_greedy():
    backbone = tiny("gpt2")
    full = load_method("full", num_layers=backbone.num_layers)
    ids, mask = tiny_prompts([3, 6])
    cold = decode(backbone, full, ids, mask, 8, temperature=1e-4, seed=3)
    assert rows_of(cold) == rows_of(decode(backbone, full, ids, mask, 8))
    assert rows_of(decode(backbone, full, ids, mask, 8, temperature=5.0, top_p=1e-9)) == rows_of(cold)
    assert Sampling().label == "greedy" and Sampling(0.7, 0.9).label == "temperature=0.7 top_p=0.9"


@pytest.mark.parametrize("temperature", [5e-324, 1e-320, 1e-305])
def test_a_temperature_whose_quotients_overflow_is_greedy(temperature):
    backbone = tiny("gpt2")
    full = load_method("full", num_layers=backbone.num_layers)
    ids, mask = tiny_prompts([3, 6])
    cold = decode(backbone, full, ids, mask, 8, temperature=temperature, top_p=0.9)
    assert rows_of(cold) == rows_of(decode(backbone, full, ids, mask, 8))


def broken(kind: str, value: float, dtype=torch.float64):
    """A model one of whose tokens has such a logit."""
    backbone = tiny_backbone(kind, dtype=dtype)
    with torch.no_grad():
        backbone.lm_head.weight[3] = value
    return backbone


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize(
    "kind, name, options",
    [
        ("llama", "full", {}),
        ("llama", "full", {"temperature": 0.7, "top_p": 0.8}),
        ("gpt2", "calm", {}),
        ("llama", "self_speculative", {}),
        ("looped_llama", "speed", {}),
    ],
)
def test_logits_that_are_no_numbers_give_no_tokens(kind, name, options, value):
    backbone = broken(kind, value)
    method = load_method(name, num_layers=backbone.num_layers)
    for tokens in (1, 8):
        with pytest.raises(SkipbenchError, match="logits are no numbers.*check its weights"):
            decode(backbone, method, *tiny_prompts([3, 6]), tokens, **options)
    with pytest.raises(SkipbenchError, match="logits are no numbers"):
        oracle_decode(backbone, method, [5, 6, 7], 3)


@pytest.mark.parametrize("kind, name", [("llama", "full"), ("llama", "self_speculative"), ("looped_llama", "speed")])
def test_one_step_that_overflows_is_enough(kind, name):
    """Seen in the step itself, not in the prefill."""
    backbone = tiny_backbone(kind)
    method = load_method(name, num_layers=backbone.num_layers)
    for seed in range(20):
        ids, mask = tiny_prompts([4], seed=seed)
        output = decode(backbone, method, ids, mask, 8, force_length=True).tokens[0].tolist()
        fed = [token for token in output[2:6] if token not in [*output[:2], *ids[0].tolist()]]
        if fed:
            break
    with torch.no_grad():
        backbone.model.get_input_embeddings().weight[fed[0]] = float("nan")
    assert decode(backbone, method, ids, mask, 2, force_length=True).tokens[0].tolist() == output[:2]
    with pytest.raises(SkipbenchError, match="logits are no numbers"):
        decode(backbone, method, ids, mask, 8, force_length=True)


def test_an_overflow_of_float16_says_which_types_hold():
    backbone = broken("llama", 6e4, torch.float16)
    with pytest.raises(SkipbenchError, match="float16 overflows: use bfloat16 or float32"):
        decode(backbone, load_method("full", num_layers=8), *tiny_prompts([3, 6]), 4)
