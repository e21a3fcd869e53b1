"""SPEED's pipeline: sequential tokens at any guesser's skill, in the steps the paper counts, with exact rollback."""

from __future__ import annotations

import random

import pytest
import torch
from helpers.engine import oracle_rows, prompts_of, rows_of, tiny
from helpers.guessing import begun, guesser, keys_and_values

from harness import decode, load_method
from harness.backbone.tiny import EOS, LOOPED_KINDS, tiny_backbone, tiny_prompts
from harness.backbone.watching import layer_calls
from harness.decoding.pipeline import Pipeline
from harness.errors import UsageError
from harness.validate import validate_method

KINDS = list(LOOPED_KINDS)
CASES = [15, pytest.param(70, marks=pytest.mark.long)]  # of each kind
OFTEN = [EOS, 7, 14, 20]  # ids that end an output, so that rows leave at all times


def speed(backbone):
    return load_method("speed", backbone.num_layers)


@pytest.mark.parametrize("cases", CASES)
@pytest.mark.parametrize("kind", KINDS)
def test_outputs_are_the_sequential_ones(kind, cases):
    """Random prompts, batches and lengths, with frequent ends of outputs or none."""
    backbone, rng = tiny_backbone(kind), random.Random(kind)
    backbone.model.generation_config.eos_token_id = OFTEN
    guesses = accepted = 0
    for case in range(cases):
        lengths = [rng.randint(1, 9) for _ in range(rng.randint(1, 3))]
        prompts, new_tokens, forced = tiny_prompts(lengths, seed=case), rng.randint(2, 8), rng.random() < 0.4
        out = decode(backbone, speed(backbone), *prompts, new_tokens, force_length=forced)
        full = decode(backbone, load_method("full", backbone.num_layers), *prompts, new_tokens, force_length=forced)
        assert rows_of(out) == rows_of(full), (kind, case)
        assert out.tokens.tolist() == full.tokens.tolist() and out.ended.tolist() == full.ended.tolist()
        assert out.timing.steps == full.timing.steps and out.prompt_layers == full.prompt_layers
        guesses += int(out.speculation.guesses.sum())
        accepted += int(out.speculation.accepted.sum())
    assert 0 < accepted < guesses  # both ways through the code were taken


@pytest.mark.parametrize("kind", KINDS)
def test_outputs_are_those_of_the_oracle_without_a_cache(kind):
    backbone = tiny(kind)
    prompts = tiny_prompts([3, 7, 1, 5], seed=11)
    out = decode(backbone, speed(backbone), *prompts, 9)
    assert rows_of(out) == oracle_rows(backbone, load_method("full", backbone.num_layers), *prompts, 9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("batch", [[4], [2, 6, 5]])
def test_cycle_steps_are_those_of_the_paper(kind, batch):
    backbone, cycles = tiny(kind), tiny(kind).num_cycles
    prompts, new_tokens = tiny_prompts(batch), 13
    fed = new_tokens - 1  # the last output token is never fed
    for skill, steps in ((1.0, fed + cycles - 1), (0.0, fed * cycles)):
        method = guesser(backbone, prompts, new_tokens, skill)
        with layer_calls(backbone) as passes:
            out = decode(backbone, method, *prompts, new_tokens, force_length=True)
        assert out.tokens.tolist() == method.truth.tolist()
        unique = list(range(backbone.num_layers // cycles))
        assert passes == [list(range(backbone.num_layers)), *[unique] * steps] == [out.prompt_layers, *out.layers_run]
        assert out.speculation.passes.tolist() == [steps] * len(batch)
        assert out.speculation.accepted.tolist() == [(fed - 1) * int(skill)] * len(batch)
        assert out.speculation.guesses.tolist() == [fed - 1] * len(batch)


@pytest.mark.parametrize("skill", [0.3, 0.7])
def test_a_guesser_right_with_some_probability_takes_the_expected_steps(skill):
    backbone = tiny("looped_opt")
    prompts, new_tokens, cycles = tiny_prompts([3, 5, 2, 4] * 8, seed=2), 30, 3
    out = decode(backbone, guesser(backbone, prompts, new_tokens, skill), *prompts, new_tokens, force_length=True)
    guesses, accepted, passes = vars(out.speculation).values()
    assert passes.tolist() == (cycles + accepted + cycles * (guesses - accepted)).tolist()
    fed = new_tokens - 1
    expected = cycles + (fed - 1) * (skill + (1 - skill) * cycles)
    error = (cycles - 1) * ((fed - 1) * skill * (1 - skill) / len(passes)) ** 0.5
    assert abs(passes.double().mean() - expected) < 4 * error


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("skill", [0.0, 0.5, 1.0])
def test_keys_and_values_are_those_of_a_run_that_never_guessed(kind, skill):
    backbone, prompts, new_tokens = tiny(kind), tiny_prompts([2, 6, 4], seed=5), 12
    method = guesser(backbone, prompts, new_tokens, skill)
    unique = backbone.num_layers // backbone.num_cycles
    plain = prompts_of(*prompts)
    true = [keys_and_values(backbone, p + t) for p, t in zip(plain, method.truth.tolist(), strict=True)]
    compared = 0
    with begun(backbone, method, prompts, new_tokens) as run:
        while run.rows:
            run.advance()
            for b, row in enumerate(run.rows):
                for cycle in range(backbone.num_cycles):
                    slot = cycle * len(run.rows) + b
                    known = min(run.cache.lengths[slot], row.prompt + len(row.tokens))  # what follows is a guess
                    assert run.cache.lengths[slot] <= row.prompt + len(row.tokens) - 1 + backbone.num_cycles
                    for layer in range(unique):
                        keys, values = true[row.index][cycle * unique + layer]
                        for ours, theirs in ((run.cache.keys, keys), (run.cache.values, values)):
                            assert torch.allclose(ours[layer][slot, :, :known], theirs[:, :known], rtol=0, atol=1e-11)
                            compared += known
    assert compared > 1000


def test_rows_end_by_themselves_and_change_nothing_for_the_others():
    backbone = tiny_backbone("looped_llama")
    backbone.model.generation_config.eos_token_id = OFTEN
    ids, mask = tiny_prompts([4, 7] * 8, seed=5)
    out = decode(backbone, speed(backbone), ids, mask, 10)
    assert len(set(out.lengths.tolist())) > 2 and int(out.ended.sum()) > 2
    for row, expected in enumerate(rows_of(out)):
        alone = decode(backbone, speed(backbone), ids[row : row + 1], mask[row : row + 1], 10)
        assert rows_of(alone) == [expected]
        for name in ("guesses", "accepted", "passes"):
            assert getattr(alone.speculation, name).item() == getattr(out.speculation, name)[row].item(), name


def test_one_cycle_is_sequential_decoding():
    config = tiny_backbone("opt", 2).config
    config.num_cycles = 1
    backbone = tiny_backbone("opt", config=config)
    prompts = tiny_prompts([3, 5])
    out = decode(backbone, speed(backbone), *prompts, 6, force_length=True)
    assert rows_of(out) == rows_of(decode(backbone, load_method("full", 2), *prompts, 6, force_length=True))
    assert out.layers_run == [[0, 1]] * 5 and out.speculation.guesses.tolist() == [0, 0]


def test_what_cannot_be_is_said_in_one_line():
    looped, plain = tiny("looped_opt"), tiny("opt")
    prompts = tiny_prompts([3])
    with pytest.raises(UsageError, match="model 'tiny-opt' is not looped; use looped-opt or looped-llama"):
        decode(plain, load_method("speed", plain.num_layers), *prompts)
    with pytest.raises(UsageError, match="so it cannot sample; set the temperature to 0"):
        decode(looped, speed(looped), *prompts, temperature=0.5)
    with pytest.raises(UsageError, match="was made for 5 layers"):
        decode(looped, load_method("speed", 5), *prompts)


@pytest.mark.parametrize("fault", ["nothing is rolled back", "one position too few", "one too many"])
def test_a_wrong_rollback_is_found(fault, monkeypatch):
    """The contract's checks see what an error in the rollback would do."""
    forget = Pipeline._forget
    shift = {"one position too few": 1, "one too many": -1}.get(fault)

    def wrong(self, lengths, row, length):
        if shift is not None:
            forget(self, lengths, row, length + shift)

    monkeypatch.setattr(Pipeline, "_forget", wrong)
    assert not validate_method("speed").ok


def test_a_prompt_as_long_as_the_model_allows():
    backbone = tiny("looped_opt")
    limit = backbone.max_positions
    prompts = tiny_prompts([limit - 3, 2], seed=9)
    full = decode(backbone, load_method("full", backbone.num_layers), *prompts, 4, force_length=True)
    assert decode(backbone, speed(backbone), *prompts, 4, force_length=True).tokens.tolist() == full.tokens.tolist()
