"""The training loop: it learns, goes on where it stopped, and keeps the last good weights."""

import math

import pytest
import torch

from harness.backbone.tiny import tiny_backbone
from harness.errors import SkipbenchError, UsageError
from harness.training import loop
from harness.training.batches import Pair
from harness.training.recipe import Recipe

PAIRS = [Pair([3 + i % 5, 9], [10 + i % 5, 20, 2]) for i in range(40)]
FULL = {"objective": "plan", "prompt": [0, 1, 2], "steps": [[0, 1, 2]]}
PLANS = [FULL, {"objective": "plan", "prompt": [0, 1, 2], "steps": [[0, 2]]}]


class Killed(Exception):
    pass


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
    monkeypatch.setattr(loop, "SAVE_EVERY_S", 0.0)
    state = tmp_path / "key.state"
    with pytest.raises(SkipbenchError, match="between steps 25 and 50.*has the weights of step 25 again"):
        loop.train(backbone, PAIRS, FULL, Recipe(100, 8, 3e-3), seed=0, state_file=state)
    assert _weights(backbone).isfinite().all() and not backbone.model.training
    saved = torch.load(state, weights_only=True)
    assert saved["step"] == 25 and saved["meter"]["output_tokens"] == 25 * 8 * 3
    assert all(moments["step"] == 25 for moments in saved["optimizer"]["state"].values())


def test_a_run_after_a_passing_fault_ends_as_if_there_had_been_none(tmp_path, monkeypatch):
    """A run that is killed, one that resumes and meets a NaN in loss and moments, and one that goes on."""
    monkeypatch.setattr(loop, "SAVE_EVERY_S", 0.0)
    whole, recipe, state, step_of = _fresh(), Recipe(75, 8, 3e-3), tmp_path / "key.state", loop._train_step
    undisturbed = loop.train(whole, PAIRS, FULL, recipe, seed=1)

    def killed(*args):
        if args[5] == 30:
            raise Killed
        step_of(*args)

    def poisoned(model, optimizer, *args):
        step_of(model, optimizer, *args)
        if args[3] == 40:
            args[4].add(torch.tensor(math.nan), 0, 0)
            for moments in optimizer.state.values():
                moments["exp_avg"].fill_(math.nan)

    monkeypatch.setattr(loop, "_train_step", killed)
    backbone = _fresh()
    with pytest.raises(Killed):
        loop.train(backbone, PAIRS, FULL, recipe, 1, state)
    assert not backbone.model.training
    monkeypatch.setattr(loop, "_train_step", poisoned)
    with pytest.raises(SkipbenchError, match="between steps 25 and 50"):
        loop.train(_fresh(), PAIRS, FULL, recipe, 1, state)
    monkeypatch.setattr(loop, "_train_step", step_of)
    resumed = _fresh()
    trained = loop.train(resumed, PAIRS, FULL, recipe, 1, state)
    assert torch.equal(_weights(resumed), _weights(whole))
    assert (trained.output_tokens, trained.loss) == (undisturbed.output_tokens, undisturbed.loss)


def test_a_fault_right_after_a_resume_leaves_the_state_as_it_was(tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "SAVE_EVERY_S", 0.0)
    state, step_of = tmp_path / "key.state", loop._train_step
    monkeypatch.setattr(loop, "_train_step", lambda *args: step_of(*args) if args[5] < 30 else 1 / 0)
    with pytest.raises(ZeroDivisionError):
        loop.train(_fresh(), PAIRS, FULL, Recipe(75, 8, 3e-3), 1, state)
    before = state.read_bytes()
    monkeypatch.setattr(loop, "_all_finite", lambda model: False)
    monkeypatch.setattr(loop, "_train_step", step_of)
    with pytest.raises(SkipbenchError, match="between steps 25 and 50.*weights of step 25 again"):
        loop.train(_fresh(), PAIRS, FULL, Recipe(75, 8, 3e-3), 1, state)
    assert state.read_bytes() == before


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04garbage", b"no state", "another model's", "no state at all"])
def test_a_damaged_state_is_named(tmp_path, content):
    state = tmp_path / "key.state"
    if isinstance(content, bytes):
        state.write_bytes(content)
    else:
        torch.save({"model": {}} if content == "another model's" else [1], state)
    with pytest.raises(UsageError, match="key.state is damaged; delete it") as caught:
        loop.train(_fresh(), PAIRS, FULL, Recipe(5, 8), 0, state)
    assert "\n" not in str(caught.value)


def test_two_processes_that_train_the_same_write_files_of_their_own(tmp_path, monkeypatch):
    monkeypatch.setattr(loop, "SAVE_EVERY_S", 0.0)
    written, save = [], torch.save
    monkeypatch.setattr(torch, "save", lambda value, path: (written.append(path), save(value, path)))
    for process in (11, 12):
        monkeypatch.setattr(loop.os, "getpid", lambda process=process: process)
        loop.train(_fresh(), PAIRS, FULL, Recipe(25, 8), 0, tmp_path / "key.state")
        (tmp_path / "key.state").unlink()
    assert len(set(written)) == 2 and not any(tmp_path.iterdir())


def test_a_pad_id_the_model_does_not_have_changes_nothing():
    ragged = [Pair([3 + i % 5] * (1 + i % 3), [10, 20, 2][i % 2 :]) for i in range(8)]
    usual, odd = _fresh(), _fresh()
    odd.model.generation_config.pad_token_id = 50256
    for backbone in (usual, odd):
        loop.train(backbone, ragged, FULL, Recipe(3, 4, 3e-3), seed=0)
    assert torch.equal(_weights(usual), _weights(odd))


def test_the_rate_warms_up_and_decays_linearly():
    recipe = Recipe(steps=100, learning_rate=1.0, warmup=0.1)
    rates = [recipe.rate(step) for step in range(100)]
    assert rates[:10] == pytest.approx([0.1 * (i + 1) for i in range(10)])
    assert all(a > b for a, b in zip(rates[10:], rates[11:], strict=False))
    assert 0 < rates[-1] < 0.02
