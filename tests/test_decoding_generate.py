"""At full depth the tokens are `generate()`'s; padding, EOS, lengths and batches change nothing."""

from __future__ import annotations

import pytest
import torch
from helpers.engine import KINDS, decoded, prompts_of, rows_of, tiny

from harness import decode, load_method
from harness.backbone.tiny import EOS, tiny_backbone, tiny_prompts
from harness.errors import UsageError

LENGTHS = [3, 9, 5, 6, 1]


def generated(backbone, ids, mask, new_tokens) -> list[list[int]]:
    """Output tokens of each row from transformers' own loop, to EOS."""
    out = backbone.model.generate(ids, attention_mask=mask, max_new_tokens=new_tokens, do_sample=False)
    outputs = []
    for row in out[:, ids.shape[1] :].tolist():
        outputs.append(row[: row.index(EOS) + 1] if EOS in row else row)
    return outputs


@pytest.mark.parametrize("kind", KINDS)
def test_full_depth_equals_generate(kind):
    backbone = tiny(kind)
    ids, mask = tiny_prompts(LENGTHS, seed=3)
    tokens = [row[0] for row in rows_of(decoded(backbone, "full", ids, mask, 12))]
    if kind != "bloom":  # in float64 transformers' own BLOOM gives NaN on left padding
        assert tokens == generated(backbone, ids, mask, 12)
    for row, prompt in enumerate(prompts_of(ids, mask)):
        alone = torch.tensor([prompt])
        assert tokens[row] == generated(backbone, alone, torch.ones_like(alone), 12)[0]
    assert len({tuple(t) for t in tokens}) == len(LENGTHS)  # the rows do say different things


# T06, T07, T08
@pytest.mark.parametrize("kind", KINDS)
def test_rows_do_not_know_their_batch_mates_or_their_padding(kind):
    backbone = tiny(kind)
    ids, mask = tiny_prompts([5, 11], seed=1)
    rows = rows_of(decoded(backbone, "full", ids, mask))
    for row, prompt in enumerate(prompts_of(ids, mask)):
        assert rows_of(decoded(backbone, "full", torch.tensor([prompt]), None)) == [rows[row]]
    order = [[0, 1], [1, 0], [0, 0, 1, 1]]
    for picked in order:
        assert rows_of(decoded(backbone, "full", ids[picked], mask[picked])) == [rows[r] for r in picked]
    right = torch.argsort(1 - mask, dim=1, stable=True)
    assert rows_of(decoded(backbone, "full", ids.gather(1, right), mask.gather(1, right))) == rows
    junk = torch.tensor([[7, 0, 7, 7, 0, 0, 7, 0, 7, 7, 0, 7, 0, 0, 7, 7]] * 2)  # tokens where the mask is 0
    scattered = torch.zeros_like(junk)
    for row, prompt in enumerate(prompts_of(ids, mask)):
        places = torch.randperm(16, generator=torch.Generator().manual_seed(row))[: len(prompt)].sort().values
        scattered[row, places], junk[row, places] = 1, torch.tensor(prompt)
    assert rows_of(decoded(backbone, "full", junk, scattered)) == rows


@pytest.mark.parametrize("kind", ["llama", "opt", "bloom"])
@pytest.mark.parametrize("name, parameters", [("full", {}), ("calm", {"threshold": 0.8}), ("unified", {"target": 2})])
def test_rows_that_end_at_different_times_equal_rows_alone(kind, name, parameters):
    backbone, ends = tiny_backbone(kind), [EOS, 7, 14, 20, 28]
    backbone.model.generation_config.eos_token_id = ends  # often met, so that rows leave at all times
    ids, mask = tiny_prompts([4, 7] * 8, seed=5)
    out = decoded(backbone, name, ids, mask, 10, **parameters)
    assert int(out.ended.sum()) > 2 and len(set(out.lengths.tolist())) > 2
    for row, expected in enumerate(rows_of(out)):
        alone = decoded(backbone, name, ids[row : row + 1], mask[row : row + 1], 10, **parameters)
        assert rows_of(alone) == [expected]
        tokens, length = out.tokens[row].tolist(), int(out.lengths[row])
        assert any(end in tokens[:length] for end in ends) == bool(out.ended[row])
        assert tokens[length:] == [backbone.pad_id] * (len(tokens) - length)
        assert out.layers_needed[row, length - 1 :].eq(0).all()


def test_force_length_decodes_eos_like_any_token():
    backbone = tiny("opt")
    full = load_method("full", num_layers=backbone.num_layers)
    ids, mask = tiny_prompts([4] * 12, seed=5)
    free = decode(backbone, full, ids, mask, 8)
    forced = decode(backbone, full, ids, mask, 8, force_length=True)
    assert free.ended.any() and not forced.ended.any()
    assert forced.lengths.tolist() == [8] * 12 and forced.layers_needed.eq(backbone.num_layers).all()
    for row, length in enumerate(free.lengths.tolist()):
        assert forced.tokens[row, :length].tolist() == free.tokens[row, :length].tolist()


def test_one_new_token_is_the_prefill_alone():
    backbone = tiny("gpt2")
    ids, mask = tiny_prompts([2, 5])
    out = decoded(backbone, "unified", ids, mask, 1, target=2)
    assert out.tokens.shape == (2, 1) and out.layers_needed.shape == (2, 0) and out.layers_run == []
    assert out.prompt_layers == list(range(backbone.num_layers)) and out.timing.steps == 0
    assert out.tokens[1, 0] == backbone.model(ids[1:]).logits[0, -1].argmax()


def test_any_of_several_eos_ids_ends_a_row():
    backbone = tiny_backbone("llama")
    ids, mask = tiny_prompts([4, 5, 6])
    first = decoded(backbone, "full", ids, mask, 6).tokens
    ends = [EOS, int(first[0, 2]), int(first[1, 1])]
    backbone.model.generation_config.eos_token_id = ends
    out = decoded(backbone, "full", ids, mask, 6)
    for row in range(3):
        tokens = first[row].tolist()
        stop = next((i for i, t in enumerate(tokens) if t in ends), 5)
        assert out.tokens[row, : int(out.lengths[row])].tolist() == tokens[: stop + 1]
    assert int(out.lengths[0]) <= 3 and int(out.lengths[1]) <= 2


def test_all_rows_ending_at_once_stops_the_loop():
    backbone = tiny_backbone("llama")
    ids, mask = tiny_prompts([4])
    first = decoded(backbone, "full", ids, mask, 6).tokens
    backbone.model.generation_config.eos_token_id = int(first[0, 0])
    out = decoded(backbone, "full", ids.repeat(3, 1), mask.repeat(3, 1), 6)
    assert out.tokens.tolist() == [[int(first[0, 0])]] * 3 and out.layers_run == [] and out.ended.all()


@pytest.mark.parametrize(
    "change, message",
    [
        ({"max_new_tokens": 0}, "max_new_tokens must be a positive whole number"),
        ({"max_new_tokens": 2.0}, "max_new_tokens must be a positive whole number"),
        ({"max_new_tokens": 95}, "do not fit into the 96 positions"),
        ({"input_ids": torch.zeros(0, 3, dtype=torch.long)}, "input_ids must be integers"),
        ({"input_ids": torch.zeros(3, dtype=torch.long)}, "input_ids must be integers"),
        ({"input_ids": torch.zeros(2, 3)}, "input_ids must be integers"),
        ({"attention_mask": torch.ones(2, 2)}, "does not fit input_ids"),
        ({"attention_mask": torch.tensor([[1, 1, 1], [0, 0, 0]])}, "prompt 1 of the batch is empty"),
        ({"temperature": -1.0}, "temperature must be"),
        ({"temperature": float("nan")}, "temperature must be"),
        ({"top_p": 0.0, "temperature": 1.0}, "top_p must lie"),
        ({"seed": [1, 2, 3], "temperature": 1.0}, "3 seeds for 2 rows"),
    ],
)
def test_input_that_does_not_fit_is_refused(change, message):
    backbone = tiny("llama")
    arguments = {
        "method": load_method("full", num_layers=8),
        "input_ids": torch.full((2, 3), 5),
        "attention_mask": None,
        **change,
    }
    with pytest.raises(UsageError, match=message):
        decode(backbone, **arguments)


def test_a_method_for_another_depth_is_refused():
    ids, mask = tiny_prompts([3])
    with pytest.raises(UsageError, match="made for 12 layers, but model 'tiny-llama' has 8"):
        decode(tiny("llama"), load_method("full", num_layers=12), ids, mask)
    with pytest.raises(UsageError, match="decode takes a LayerSchedule"):
        decode(tiny("llama"), "full", ids, mask)
