"""T07: whatever side a tokenizer pads on, a batch decodes like each text alone."""

from __future__ import annotations

import pytest
import torch
from helpers.engine import rows_of

from harness import Backbone, decode, load_method
from harness.backbone.builtin import untrained
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
