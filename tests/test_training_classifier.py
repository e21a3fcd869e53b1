"""CALM's exit classifier: learns which layers already agree with the last, and travels with its checkpoint."""

from __future__ import annotations

import pytest
import torch
from helpers.engine import tiny
from torch.nn.functional import binary_cross_entropy_with_logits

from harness import Backbone, decode, load_method
from harness.backbone.classifier import read_exit_classifier, save_exit_classifier
from harness.backbone.tiny import tiny_backbone, tiny_prompts
from harness.errors import UsageError
from harness.training.batches import Pair, collate
from harness.training.classifier import _examples, train_exit_classifier


def batches(count: int, seed: int) -> list:
    generator = torch.Generator().manual_seed(seed)
    draw = lambda size: torch.randint(3, 31, (size,), generator=generator).tolist()  # noqa: E731
    return [collate([Pair(draw(3 + i % 4), draw(4 + i % 3)) for i in range(16)], 0) for _ in range(count)]


def loss_of(classifier, hidden, agrees):
    return binary_cross_entropy_with_logits(hidden @ classifier[:-1] + classifier[-1], agrees)


def regression(hidden, agrees) -> torch.Tensor:
    """The best classifier for these examples, by a second-order method on all of them."""
    classifier = torch.zeros(hidden.shape[-1] + 1, dtype=torch.float64, requires_grad=True)
    optimizer = torch.optim.LBFGS([classifier], max_iter=60, line_search_fn="strong_wolfe")

    def closure():
        optimizer.zero_grad()
        loss = loss_of(classifier, hidden, agrees)
        loss.backward()
        return loss

    optimizer.step(closure)
    return classifier.detach()


@pytest.mark.parametrize("kind", ["llama", "opt_projected"])
def test_it_comes_near_the_best_linear_map(kind):
    backbone = tiny(kind)
    before = [p.clone() for p in backbone.model.parameters()]
    data = batches(40, seed=0)
    classifier = train_exit_classifier(backbone, data)
    assert classifier.shape == (17,) and classifier.dtype == torch.float32
    examples = [_examples(backbone, batch) for batch in data]
    hidden, agrees = (torch.cat(side, 1).double() for side in zip(*examples, strict=True))
    assert hidden.shape[0] == agrees.shape[0] == backbone.num_layers - 1
    found, best = loss_of(classifier.double(), hidden, agrees), loss_of(regression(hidden, agrees), hidden, agrees)
    rate = agrees.mean()
    constant = -(rate * rate.log() + (1 - rate) * (1 - rate).log())
    assert best <= found < best + 0.25 * (constant - best)
    assert all(torch.equal(a, b) for a, b in zip(before, backbone.model.parameters(), strict=True))
    assert all(p.grad is None for p in backbone.model.parameters())


def test_it_travels_with_its_checkpoint(tmp_path):
    model, classifier = tiny("llama").model, torch.linspace(-1, 1, 17)
    model.save_pretrained(tmp_path)
    assert Backbone.load(str(tmp_path), dtype="float64").exit_classifier is None
    save_exit_classifier(classifier, tmp_path)
    assert torch.equal(read_exit_classifier(tmp_path), classifier)
    loaded = Backbone.load(str(tmp_path), dtype="float64")
    assert torch.equal(loaded.exit_classifier, classifier.double())
    method, prompts = load_method("calm", 8, confidence="classifier", threshold=0.5), tiny_prompts([3, 5])
    direct = decode(Backbone(model, exit_classifier=classifier), method, *prompts, 6)
    assert decode(loaded, method, *prompts, 6).layers_needed.tolist() == direct.layers_needed.tolist()
    (tmp_path / "exit_classifier.safetensors").write_bytes(b"torn")
    with pytest.raises(UsageError, match="is no exit classifier"):
        Backbone.load(str(tmp_path))


def test_a_model_of_one_layer_is_never_asked():
    assert torch.equal(train_exit_classifier(tiny_backbone("llama", 1), batches(1, seed=0)), torch.zeros(17))


def test_a_first_batch_of_one_token_has_no_spread():
    one = collate([Pair([5, 6], [7])], 0)
    classifier = train_exit_classifier(tiny_backbone("llama", 2), [one, *batches(2, seed=0)])
    assert classifier.isfinite().all() and classifier.abs().max() < 10
