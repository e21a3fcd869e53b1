"""Draft and verify: full greedy tokens whatever drafts, layers run once where they may be, exact rollback."""

from __future__ import annotations

import random
from dataclasses import dataclass

import pytest
import torch
from helpers.engine import KINDS, oracle_rows, prompts_of, rows_of, tiny
from helpers.guessing import begun, guesser, keys_and_values

from harness import Speculative, decode, load_method
from harness.backbone import PlanCache
from harness.backbone.tiny import EOS, LOOPED_KINDS, tiny_backbone, tiny_prompts
from harness.backbone.watching import layer_calls
from harness.errors import UsageError
from harness.validate import validate_method

CASES = [6, pytest.param(30, marks=pytest.mark.long)]  # of each kind
OFTEN = [EOS, 7, 14, 20]  # ids that end an output


def drafting(backbone, **parameters):
    return load_method("self_speculative", backbone.num_layers, **parameters)


@pytest.mark.parametrize("cases", CASES)
@pytest.mark.parametrize("kind", KINDS)
def test_outputs_are_those_of_the_whole_model(kind, cases):
    """Random prompts, batches, lengths and drafts, with frequent ends of outputs or none."""
    backbone, rng = tiny_backbone(kind), random.Random(kind)
    backbone.model.generation_config.eos_token_id = OFTEN
    for case in range(cases):
        lengths = [rng.randint(1, 9) for _ in range(rng.randint(1, 3))]
        prompts, new_tokens, forced = tiny_prompts(lengths, seed=case), rng.randint(2, 8), rng.random() < 0.4
        draft = {
            "draft": rng.choice(["prefix", "subset"]),
            "draft_depth": rng.randint(1, backbone.num_layers),
            "draft_tokens": rng.randint(1, 6),
        }
        out = decode(backbone, drafting(backbone, **draft), *prompts, new_tokens, force_length=forced)
        full = decode(backbone, load_method("full", backbone.num_layers), *prompts, new_tokens, force_length=forced)
        assert rows_of(out) == rows_of(full), (kind, case, draft)
        assert out.tokens.tolist() == full.tokens.tolist() and out.ended.tolist() == full.ended.tolist()


@pytest.mark.parametrize("kind", ["llama", "bloom", *LOOPED_KINDS])
def test_outputs_are_those_of_the_oracle_without_a_cache(kind):
    backbone = tiny(kind)
    prompts = tiny_prompts([3, 7, 1, 5], seed=11)
    expected = oracle_rows(backbone, load_method("full", backbone.num_layers), *prompts, 9)
    for draft in ("prefix", "subset"):
        assert rows_of(decode(backbone, drafting(backbone, draft=draft), *prompts, 9)) == expected


def test_a_prefix_is_not_run_again_and_a_subset_is():
    backbone = tiny("llama")
    prompts = tiny_prompts([4])
    everything = list(range(8))
    with layer_calls(backbone) as passes:
        out = decode(backbone, drafting(backbone, draft_depth=3, draft_tokens=2), *prompts, 7, force_length=True)
    assert passes == [out.prompt_layers, *out.layers_run]
    assert passes[:4] == [everything, [0, 1, 2], [0, 1, 2], [3, 4, 5, 6, 7]]
    out = decode(
        backbone, drafting(backbone, draft="subset", draft_depth=3, draft_tokens=2), *prompts, 7, force_length=True
    )
    assert out.layers_run[:3] == [[0, 4, 7], [0, 4, 7], everything]


@pytest.mark.parametrize("depth, layers", [(1, [0]), (2, [0, 7]), (4, [0, 2, 5, 7]), (8, list(range(8)))])
def test_a_subset_is_spread_evenly(depth, layers):
    assert load_method("self_speculative", 8, draft="subset", draft_depth=depth).draft_layers() == layers


def test_a_draft_that_is_always_right_or_never():
    """With g drafts a round of a prefix gives g tokens at best, and one token at worst."""
    backbone, new_tokens = tiny("opt"), 13
    prompts = tiny_prompts([3, 6])
    method = guesser(backbone, prompts, new_tokens, 1.0, pipelined=False)  # layers 0 and 1 draft 3 tokens
    out = decode(backbone, method, *prompts, new_tokens, force_length=True)
    assert out.layers_run == [[0, 1], [0, 1], [0, 1], [2, 3, 4, 5]] * 4
    assert out.speculation.accepted.tolist() == out.speculation.guesses.tolist() == [12, 12]
    never = guesser(backbone, prompts, new_tokens, 0.0, pipelined=False)
    out = decode(backbone, never, *prompts, new_tokens, force_length=True)
    assert out.tokens.tolist() == method.truth.tolist()
    assert out.layers_run == [[0, 1], [0, 1], [0, 1], [2, 3, 4, 5]] * 10 + [
        *[[0, 1], [0, 1], [2, 3, 4, 5]],  # two tokens are left, so no more are drafted
        *[[0, 1], [2, 3, 4, 5]],
    ]
    assert out.speculation.accepted.tolist() == [0, 0] and out.speculation.guesses.tolist() == [12, 12]


@pytest.mark.parametrize("kind", ["llama", "opt_projected", "gpt2", "gpt_neox"])
@pytest.mark.parametrize("draft", ["prefix", "subset"])
def test_keys_and_values_are_those_of_a_run_that_never_guessed(kind, draft):
    backbone, prompts, new_tokens = tiny(kind), tiny_prompts([2, 6, 4], seed=5), 12
    truth = guesser(backbone, prompts, new_tokens, 0.5).truth
    plain = prompts_of(*prompts)
    true = [keys_and_values(backbone, p + t) for p, t in zip(plain, truth.tolist(), strict=True)]
    rejected = 0
    with begun(backbone, drafting(backbone, draft=draft, draft_tokens=3), prompts, new_tokens) as run:
        rows = list(run.rows)
        while run.rows:
            run.advance()
            for b, row in enumerate(run.rows):
                known = run.cache.lengths[b]
                assert known == row.prompt + len(row.tokens) - 1  # the newest token is not fed yet
                for layer, (keys, values) in enumerate(true[row.index]):
                    assert run.cache.holds(layer, b) == known
                    for ours, theirs in ((run.cache.keys, keys), (run.cache.values, values)):
                        assert torch.allclose(ours[layer][b, :, :known], theirs[:, :known], rtol=0, atol=1e-11)
        rejected = sum(row.guesses - row.accepted for row in rows)
    assert rejected > 3  # something was rolled back


@dataclass(frozen=True)
class Wrong(Speculative):
    """Whatever `says` makes of it."""

    says: object = None

    def draft_layers(self):
        return [0, 9] if self.says == "outside" else [0]

    def prompt_layers(self):
        return [0] if self.says == "prompt" else range(self.num_layers)

    def guess(self, logits, rows, places):
        return {"float": logits[:, 0], "few": rows[:1], "beyond": rows + 31, "negative": -1 - rows}.get(self.says, rows)


@pytest.mark.parametrize(
    ("says", "message"),
    [
        ("outside", r"draft_layers\(\) returned layer 9, but the model has layers 0 to 5"),
        ("prompt", "lossless, so the prompt runs every layer"),
        ("float", "guess must return token ids below 31, a long tensor of shape"),
        ("few", "guess must return token ids below 31, a long tensor of shape"),
        ("beyond", "guess must return token ids below 31"),
        ("negative", "guess must return token ids below 31"),
    ],
)
def test_a_method_that_says_nonsense_is_refused(says, message):
    with pytest.raises(UsageError, match=message):
        decode(tiny("opt"), Wrong(6, says=says), *tiny_prompts([3, 4]), 6)


def test_parameters_that_cannot_be():
    for parameters in ({"draft_depth": 0}, {"draft_depth": 7}, {"draft_tokens": 0}):
        with pytest.raises(UsageError, match="self_speculative: draft_"):
            load_method("self_speculative", 6, **parameters)
    with pytest.raises(UsageError, match="cannot sample"):
        decode(tiny("opt"), load_method("self_speculative", 6), *tiny_prompts([3]), temperature=1.0)


def test_keys_that_are_not_there_are_found(monkeypatch):
    """A verification that reuses what no draft has written is a hole, not a silent error."""
    monkeypatch.setattr(PlanCache, "keep", lambda self, layers: None)
    report = validate_method("self_speculative")
    assert not report.ok and "it opens a hole in the cache" in report.failures[0]
