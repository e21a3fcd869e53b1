"""What is given to `decode`: everything that can be meant is taken, the rest refused in one line."""

import numpy as np
import pytest
import torch

from harness import decode, load_method
from harness.backbone.tiny import tiny_backbone
from harness.errors import UsageError

IDS = [[5, 6, 7], [8, 9, 10]]


@pytest.fixture(scope="module")
def backbone():
    return tiny_backbone("llama")


@pytest.fixture(scope="module")
def full(backbone):
    return load_method("full", backbone.num_layers)


@pytest.mark.parametrize("ids", [IDS, np.array(IDS), np.array(IDS, dtype=np.int32), torch.tensor(IDS).int()])
def test_lists_and_arrays_are_taken(backbone, full, ids):
    expected = decode(backbone, full, torch.tensor(IDS), max_new_tokens=4)
    out = decode(backbone, full, ids, np.ones((2, 3)), max_new_tokens=np.int64(4))
    assert torch.equal(out.tokens, expected.tokens)


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([[5, 6], [7]], "input_ids must be a tensor"),
        ("text", "input_ids must be a tensor"),
        (None, "input_ids must be a tensor"),
        (torch.tensor(IDS).bool(), "input_ids must be integers"),
        (torch.tensor(IDS).float(), "input_ids must be integers"),
        (torch.tensor(IDS[0]), "input_ids must be integers"),
        ([[5, 10_000]], "input_ids hold 10000, but model"),
        ([[5, -1]], "input_ids hold -1, but model"),
    ],
)
def test_ids_that_cannot_be_meant(backbone, full, ids, message):
    with pytest.raises(UsageError, match=message):
        decode(backbone, full, ids, max_new_tokens=2)


def test_ids_under_the_padding_are_never_read(backbone, full):
    one = decode(backbone, full, [[-100, 5, 6]], [[0, 1, 1]], max_new_tokens=3)
    assert torch.equal(one.tokens, decode(backbone, full, [[5, 6]], max_new_tokens=3).tokens)


def test_a_mask_that_does_not_fit(backbone, full):
    for mask in ([[1, 1]], [[1, 1, 1]], "x"):
        with pytest.raises(UsageError, match="attention_mask"):
            decode(backbone, full, IDS, mask, max_new_tokens=2)


def test_the_bare_model_is_no_backbone(backbone, full):
    with pytest.raises(UsageError, match=r"Backbone\(model\)"):
        decode(backbone.model, full, IDS, max_new_tokens=2)


@pytest.mark.parametrize("kind", [np.uint8, np.uint16, np.uint32, np.uint64])
def test_unsigned_ids_and_masks_are_taken(backbone, full, kind):
    ids, mask = np.array([[0, 5, 6], [8, 9, 10]]), np.array([[0, 1, 1], [1, 1, 1]])
    expected = decode(backbone, full, ids, mask, max_new_tokens=4)
    out = decode(backbone, full, ids.astype(kind), mask.astype(kind), max_new_tokens=4)
    assert torch.equal(out.tokens, expected.tokens)


@pytest.mark.parametrize(
    ("row", "odd"), [([0, -np.inf, -np.inf], "-inf"), ([1, 2, 3], "2"), ([0.5, 1, 1], "0.5"), ([np.nan, 1, 1], "nan")]
)
def test_a_mask_of_another_kind_is_refused(backbone, full, row, odd):
    """An additive mask is 0 at tokens; taken as bool it would decode the padding."""
    with pytest.raises(UsageError, match=f"attention_mask holds 1 at tokens and 0 at padding, and no {odd}$"):
        decode(backbone, full, IDS, [row, row], max_new_tokens=2)


@pytest.mark.parametrize("count", [0, -1, 2.5, "3", None, True])
def test_a_number_of_tokens_that_is_none(backbone, full, count):
    with pytest.raises(UsageError, match="max_new_tokens"):
        decode(backbone, full, IDS, max_new_tokens=count)


@pytest.mark.parametrize("seed", ["x", None, 1.5, -1, 2**70, [1], [1, 2.5]])
def test_seeds_that_are_none(backbone, full, seed):
    with pytest.raises(UsageError, match="seed"):
        decode(backbone, full, IDS, max_new_tokens=2, temperature=1.0, seed=seed)


def test_numbers_of_numpy_are_numbers(backbone, full):
    options = {"max_new_tokens": 4, "temperature": 0.5, "seed": 3}
    ours = {"max_new_tokens": np.int64(4), "temperature": np.float32(0.5), "seed": np.int64(3)}
    assert torch.equal(decode(backbone, full, IDS, **ours).tokens, decode(backbone, full, IDS, **options).tokens)
