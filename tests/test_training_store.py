"""Checkpoints: keyed by everything that made them, complete or not there, reused."""

import dataclasses
import json

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

from harness import load_method, load_task
from harness.errors import UsageError
from harness.training import Checkpoints, Recipe, store
from harness.training.setting import Setting
from harness.training.weights import weights_identity


def _setting(**changes):
    base = Setting(
        model="nano-opt",
        task=load_task("e2e", "stand-in"),
        seed=0,
        base=Recipe(3, 4),
        own=Recipe(2, 4),
        vocab_size=400,
        max_prompt_tokens=48,
        max_output_tokens=12,
    )
    return dataclasses.replace(base, **changes)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    checkpoints = Checkpoints(tmp_path_factory.mktemp("checkpoints"))
    objective = load_method("unified", 4, target=2).recipe(11)
    return checkpoints, checkpoints.own(_setting(), objective, "unified"), objective


def test_a_checkpoint_loads_in_transformers_and_says_what_made_it(made):
    checkpoints, own, _ = made
    model = AutoModelForCausalLM.from_pretrained(own.path)
    tokenizer = AutoTokenizer.from_pretrained(own.path)
    assert model.config.vocab_size == len(tokenizer) <= 400
    assert own.weights == weights_identity(own.path)
    assert own.training["steps"] == 2 and own.training["source"] == "stand-in" and own.training["seed"] == 0
    assert not list(checkpoints.root.glob("*.part*")) and not list(checkpoints.root.glob("*.state"))


def test_what_is_there_is_not_trained_again(made, monkeypatch):
    checkpoints, own, objective = made
    monkeypatch.setattr("harness.training.loop.train", lambda *a, **k: pytest.fail("trained again"))
    again = Checkpoints(checkpoints.root).own(_setting(), objective, "unified")
    assert again == own


# T34
def test_every_part_of_the_recipe_changes_the_key(made):
    checkpoints, _, objective = made
    settings = [
        _setting(),
        _setting(model="mini-opt"),
        _setting(seed=1),
        _setting(split="validation"),
        _setting(base=Recipe(4, 4)),
        _setting(own=Recipe(3, 4)),
        _setting(own=Recipe(2, 4, learning_rate=1e-4)),
        _setting(vocab_size=500),
        _setting(max_prompt_tokens=40),
        _setting(max_output_tokens=13),
    ]
    keys = [checkpoints.own_key(s, objective) for s in settings]
    keys.append(checkpoints.own_key(_setting(), load_method("unified", 4, target=1).recipe(11)))
    assert len(set(keys)) == len(keys)
    bases = [checkpoints.base_key(_setting()), checkpoints.base_key(_setting(own=Recipe(9, 4)))]
    assert bases[0] == bases[1]  # the base does not know what comes after it


def test_the_prompt_changes_the_key(made):
    checkpoints, _, objective = made

    class Asking(type(load_task("e2e", "stand-in"))):  # the same examples and label, put in another way
        def prompt(self, example):
            return "Describe: " + super().prompt(example)

    changed = _setting(task=Asking("stand-in"))
    for key in (checkpoints.text_key, checkpoints.base_key):
        assert key(changed) != key(_setting())
    assert checkpoints.own_key(changed, objective) != checkpoints.own_key(_setting(), objective)


def test_decoding_only_parameters_share_a_checkpoint(made):
    checkpoints, _, _ = made
    recipes = [load_method("calm", 4, threshold=t).recipe(11) for t in (0.2, 0.9)]
    recipes += [load_method("multi_layer", 4, exit_layers=k).recipe(11) for k in (1, 3)]
    assert len({checkpoints.own_key(_setting(), recipe) for recipe in recipes}) == 1


def test_an_interrupted_save_leaves_no_checkpoint(tmp_path, monkeypatch):
    checkpoints = Checkpoints(tmp_path)
    setting = _setting()
    key = checkpoints.base_key(setting)
    monkeypatch.setattr(store, "weights_identity", lambda folder: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        checkpoints.base(setting)
    assert not (tmp_path / key).exists() and not list(tmp_path.glob("*.part*"))


def test_a_damaged_checkpoint_is_named(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    folder = tmp_path / checkpoints.base_key(_setting())
    folder.mkdir()
    with pytest.raises(UsageError, match=f"{folder.name} is damaged.*delete it"):
        checkpoints.base(_setting())
    (folder / "training.json").write_text(json.dumps({"weights": "0" * 64}))
    assert checkpoints.base(_setting()).weights == "0" * 64
