"""T07: whatever side a tokenizer pads on, a batch decodes like each text alone."""

from __future__ import annotations

import pytest
import torch
from helpers.engine import rows_of
from transformers import GPT2Config, GPT2LMHeadModel

from harness import Backbone, decode, load_method
from harness.backbone.builtin import untrained
from harness.backbone.tiny import tiny_backbone, tiny_prompts
from harness.training.tokenizer import train_tokenizer

TEXTS = ["a", "the cat sat on the mat", "two birds\nand a fish =>"]


@pytest.fixture(scope="module")
def backbone():
    return Backbone(untrained("nano-opt", vocab_size=300).double(), train_tokenizer(TEXTS, 300))


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name, parameters", [("full", {}), ("unified", {"target": 2}), ("calm", {"threshold": 0.9})])
def test_a_tokenizers_padding_side_changes_nothing(backbone, side, name, parameters):
    method, tokenizer = load_method(name, num_layers=4, **parameters), backbone.tokenizer
    tokenizer.padding_side = side
    batch = tokenizer(TEXTS, padding=True, return_tensors="pt")
    assert batch["attention_mask"][0, 0 if side == "left" else -1] == 0
    alone = [decode(backbone, method, torch.tensor([tokenizer(text)["input_ids"]]), None, 9) for text in TEXTS]
    together = decode(backbone, method, batch["input_ids"], batch["attention_mask"], 9)
    assert rows_of(together) == [rows_of(one)[0] for one in alone]
    assert len({tuple(tokens) for tokens, _ in rows_of(together)}) > 1  # the texts do matter


@pytest.mark.parametrize("pad", [50256, 31, -1])
@pytest.mark.parametrize(
    "kind, name", [("llama", "full"), ("opt", "calm"), ("gpt2", "self_speculative"), ("looped_gpt2", "speed")]
)
def test_a_pad_id_the_model_does_not_have_is_never_fed(kind, name, pad):
    """As where a tokenizer got a pad token and the embeddings were left as they were."""
    backbone = tiny_backbone(kind)
    backbone.model.generation_config.eos_token_id = [2, 7, 14, 20, 28]  # often met, so that rows leave at all times
    method, (ids, mask) = load_method(name, backbone.num_layers), tiny_prompts([2, 6, 4, 3] * 2)
    expected = decode(backbone, method, ids, mask, 12)
    backbone.model.generation_config.pad_token_id = pad
    out = decode(backbone, method, ids, mask, 12)
    assert rows_of(out) == rows_of(expected)
    after = torch.arange(out.tokens.shape[1]) >= out.lengths[:, None]
    assert after.any() and out.tokens[after].eq(pad).all()


def test_a_small_gpt2_keeps_the_eos_of_the_large_one():
    """Its config's default, which then also pads."""
    config = GPT2Config(vocab_size=31, n_embd=16, n_layer=4, n_head=2, n_positions=64)
    small = Backbone(GPT2LMHeadModel(config).double().eval())
    assert small.pad_id == 50256 and small.fill_id == 0
    ids, mask = tiny_prompts([2, 4])
    together = decode(small, load_method("full", 4), ids, mask, 6)
    alone = [
        decode(small, load_method("full", 4), row[keep.bool()][None], None, 6)
        for row, keep in zip(ids, mask, strict=True)
    ]
    assert rows_of(together) == [rows_of(one)[0] for one in alone]
