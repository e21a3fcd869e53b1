"""The training loop: it learns, goes on where it stopped, and keeps the last good weights."""

import math

import pytest
import torch

from harness.backbone.tiny import tiny_backbone
from harness.errors import SkipbenchError
from harness.training import loop
from harness.training.batches import Pair
from harness.training.recipe import Recipe

PAIRS = [Pair([3 + i % 5, 9], [10 + i % 5, 20, 2]) for i in range(40)]
FULL = {"objective": "plan", "prompt": [0, 1, 2], "steps": [[0, 1, 2]]}
PLANS = [FULL, {"objective": "plan", "prompt": [0, 1, 2], "steps": [[0, 2]]}]


def _fresh():
    return tiny_backbone("opt", num_layers=3, dtype=torch.float32)


def _weights(backbone):
    return torch.cat([p.detach().flatten() for p in backbone.model.parameters()])


def test_loss_falls_and_progress_is_told():
    told = []
    trained = loop.train(_fresh(), PAIRS, FULL, Recipe(75, 8, 3e-3), seed=0, progress=lambda *a: told.append(a))
    assert [step for step, *_ in told] == [25, 50, 75]
    assert told[-1][2] < told[0][2] / 2
    assert trained.loss == told[-1][2] and trained.output_tokens == 75 * 8 * 3
    assert all(rate > 0 for *_, rate in told)


@pytest.mark.parametrize("objective", [FULL, {"objective": "multi_exit"}, {"objective": "plans", "plans": PLANS}])
def test_a_resumed_run_ends_with_the_same_weights(tmp_path, monkeypatch, objective):
    """Dropout, drawn exits and drawn plans included."""
    monkeypatch.setattr(loop, "SAVE_EVERY_S", 0.0)
    whole = _fresh()
    loop.train(whole, PAIRS, objective, Recipe(60, 8, 3e-3), seed=1)

    class Killed(Exception):
        pass

    def die(step, *_):
        if step == 50:
            raise Killed

    state = tmp_path / "key.state"
    with pytest.raises(Killed):
        loop.train(_fresh(), PAIRS, objective, Recipe(60, 8, 3e-3), seed=1, state_file=state, progress=die)
    resumed = _fresh()
    seen = []
    loop.train(resumed, PAIRS, objective, Recipe(60, 8, 3e-3), 1, state, lambda step, *_: seen.append(step))
    assert seen == [50, 60]  # the state of step 25 was saved; 25 steps later it looks again
    torch.testing.assert_close(_weights(resumed), _weights(whole), rtol=0, atol=0)


def test_a_loss_that_is_no_number_stops_and_keeps_the_last_good_weights(tmp_path, monkeypatch):
    backbone, calls = _fresh(), []
    make_loss = loop.make_loss

    def poisoned(*args):
        loss_of = make_loss(*args)

        def loss(batch, step):
            calls.append(1)
            return loss_of(batch, step) * (math.nan if len(calls) > 30 else 1.0)

        return loss

    monkeypatch.setattr(loop, "make_loss", poisoned)
    state = tmp_path / "key.state"
    with pytest.raises(SkipbenchError, match="between steps 25 and 50.*weights of step 25 are kept"):
        loop.train(backbone, PAIRS, FULL, Recipe(100, 8, 3e-3), seed=0, state_file=state)
    assert _weights(backbone).isfinite().all()
    assert torch.load(state, weights_only=True)["step"] == 25


def test_the_rate_warms_up_and_decays_linearly():
    recipe = Recipe(steps=100, learning_rate=1.0, warmup=0.1)
    rates = [recipe.rate(step) for step in range(100)]
    assert rates[:10] == pytest.approx([0.1 * (i + 1) for i in range(10)])
    assert all(a > b for a, b in zip(rates[10:], rates[11:], strict=False))
    assert 0 < rates[-1] < 0.02
