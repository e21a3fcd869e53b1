"""What ends an output: whatever the model says, and what training writes there."""

from __future__ import annotations

import copy

import pytest
import torch

from harness import Backbone, decode, load_method
from harness.backbone.tiny import tiny_backbone, tiny_prompts
from harness.task import encode_output
from harness.training.tokenizer import train_tokenizer

CONFIG, GENERATION = 5, [6, 7]


def backbone(tokenizer=None, config=CONFIG, generation=GENERATION) -> Backbone:
    model = copy.deepcopy(tiny_backbone("llama").model)
    model.config.eos_token_id, model.generation_config.eos_token_id = config, generation
    return Backbone(model, tokenizer)


def tokenizer(eos="</s>"):
    made = train_tokenizer(["a post"], 300)
    made.eos_token = eos
    return made


@pytest.mark.parametrize(
    ("config", "generation", "with_tokenizer", "expected"),
    [
        (CONFIG, GENERATION, False, (6, 7)),
        (CONFIG, None, False, (5,)),
        (None, None, False, ()),
        (CONFIG, GENERATION, True, (6, 7, 2)),
        (CONFIG, None, True, (5, 2)),
        (None, None, True, (2,)),
        (2, 2, True, (2,)),
        (CONFIG, [2, 7], True, (2, 7)),
    ],
)
def test_the_models_own_and_the_tokenizers(config, generation, with_tokenizer, expected):
    made = backbone(tokenizer() if with_tokenizer else None, config, generation)
    assert made.eos_ids == expected


def test_a_tokenizer_without_an_end_adds_none():
    assert backbone(tokenizer(None)).eos_ids == (6, 7)


def test_the_end_that_training_writes_ends_decoding():
    """A model whose generation config names another end than its tokenizer: outputs learnt with the one must end."""
    ids, mask = tiny_prompts([4, 5, 6])
    free = decode(backbone(), load_method("full", num_layers=8), ids, mask, 12, force_length=True).tokens
    end = int(free[0, 3])
    made = tokenizer(train_tokenizer(["a post"], 300).convert_ids_to_tokens(end))
    assert encode_output("a post", made)[-1] == end
    other = next(token for token in range(31) if token not in free)
    out = decode(backbone(made, generation=[other]), load_method("full", num_layers=8), ids, mask, 12)
    first = free[0].tolist().index(end)
    assert bool(out.ended[0]) and int(out.lengths[0]) == first + 1
    assert torch.equal(out.tokens[0, : first + 1], free[0, : first + 1])
