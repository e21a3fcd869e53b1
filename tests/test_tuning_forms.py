"""Every method with its own fine-tuning, without, and with a user's folder; sampled; with several seeds of its own."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from harness import read_results, run_suite
from harness.backbone.classifier import FILE_NAME
from harness.errors import UsageError
from harness.reporting.panels import panels
from harness.reporting.points import load_points

SUITE = """
data: stand-in
model: nano-opt
tasks: [e2e]
limit: 8
training: {base_steps: 3, own_steps: 2, batch_size: 4, base_learning_rate: 1.0e-3, own_learning_rate: 1.0e-3,
  vocab_size: 400}
calibration_examples: 8
"""
DECODING = "batch_size: 8, max_prompt_tokens: 64, max_new_tokens: 8"
METHODS = """[full, multi_layer, skipdecode, unified, random_skip, oracle_exit, calm,
  {name: calm, params: {confidence: classifier}}, {name: random_skip, params: {like: skipdecode}},
  {name: unified, params: {selection: balanced, train_targets: [1.5, 2, 4]}}]"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """One folder of checkpoints for this file."""
    folder = tmp_path_factory.mktemp("forms")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SKIPBENCH_CHECKPOINTS", str(folder))
        yield folder


def run(
    out: Path, methods: str = METHODS, decoding: str = "", targets: str = "[2]", **settings: str
) -> dict[tuple, dict]:
    """Run a suite; {(method, variant, checkpoint): run.json with its records}, floors left out."""
    out.mkdir()
    lines = [f"methods: {methods}", f"decoding: {{{DECODING}{decoding}}}", f"targets: {targets}"]
    lines += [f"{key}: {value}" for key, value in settings.items()]
    (out / "ours.yaml").write_text(SUITE + "\n".join(lines) + "\n")
    root = run_suite(str(out / "ours.yaml"), out / "results")
    found = {}
    for path in root.glob("runs/*/run.json"):
        config = json.loads(path.read_text())
        if config["method"]["name"] != "floor":
            records = (path.parent / "records.jsonl").read_text().splitlines()
            key = (config["method"]["name"], config["method"]["variant"], config["checkpoint"])
            found[key] = {**config, "records": [json.loads(line) for line in records]}
    return found


@pytest.fixture(scope="module")
def forms(folder, tmp_path_factory):
    return run(tmp_path_factory.mktemp("out") / "forms", checkpoints="[own, base]")


def test_every_method_runs_with_and_without_its_fine_tuning(forms):
    assert Counter(checkpoint for *_, checkpoint in forms) == {"own": 10, "base": 10}
    assert all(len(config["records"]) == 8 for config in forms.values())
    base = {config["model"]["weights"] for (*_, checkpoint), config in forms.items() if checkpoint == "base"}
    own = {config["model"]["weights"] for (*_, checkpoint), config in forms.items() if checkpoint == "own"}
    assert len(base) == 1 and not base & own


def test_one_multi_exit_checkpoint_serves_calm_and_multi_layer_and_each_weights_have_a_classifier(forms, folder):
    own = [config for (name, _, ck), config in forms.items() if name in ("calm", "multi_layer") and ck == "own"]
    (key,) = {config["checkpoint_key"] for config in own}
    assert len(own) == 3 and (folder / key).is_dir()
    assert len(list(folder.glob(f"*/{FILE_NAME}"))) == 2  # of this one's weights and of the base's


def test_one_unified_checkpoint_serves_several_targets(folder, tmp_path):
    methods = "[{name: unified, params: {selection: balanced, train_targets: [1.5, 2, 4]}}, full]"
    found = run(tmp_path / "out", methods, targets="[1.5, 2, 4]")
    unified = [config for (name, *_), config in found.items() if name == "unified"]
    assert len(unified) == 3 and len({config["checkpoint_key"] for config in unified}) == 1
    assert {tuple(config["plan"]["steps"][0]) for config in unified} == {(0, 2, 3), (0, 3)}  # 4x needs two layers


def test_a_users_folder(forms, folder, tmp_path):
    key = next(config["checkpoint_key"] for (name, _, ck), config in forms.items() if name == "full" and ck == "own")
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    for file in (folder / key).iterdir():
        (theirs / file.name).write_bytes(file.read_bytes())
    before = sorted(theirs.iterdir())
    found = run(tmp_path / "out", checkpoints=f"[{theirs}]")
    assert len(found) == 10
    assert sorted(theirs.iterdir()) == before  # a classifier is trained, but nothing is put into their folder
    given = next(config for (name, *_), config in found.items() if name == "full")
    own = next(config for (name, _, ck), config in forms.items() if name == "full" and ck == "own")
    assert given["records"] == own["records"] and given["run_id"] != own["run_id"]
    assert {config["model"]["weights"] for config in found.values()} == {own["model"]["weights"]}
    with pytest.raises(UsageError):
        run(tmp_path / "wrong", checkpoints="[./nowhere]")


def test_sampling_twice_gives_the_same_and_not_the_greedy_tokens(folder, forms, tmp_path):
    sampled = ", temperature: 0.8, top_p: 0.9"
    one, two = (run(tmp_path / name, decoding=sampled) for name in ("one", "two"))
    assert one.keys() == two.keys() and len(one) == 10
    for key, config in one.items():
        assert config["records"] == two[key]["records"]
        assert config["decoding"] == "temperature=0.8 top_p=0.9"
    greedy = next(config for (name, _, ck), config in forms.items() if name == "full" and ck == "own")
    drawn = next(config for (name, *_), config in one.items() if name == "full")
    assert [r["tokens"] for r in drawn["records"]] != [r["tokens"] for r in greedy["records"]]


def test_five_seeds_of_a_control_are_five_runs_and_one_point(folder, tmp_path):
    methods = "[full, {name: random_skip, seeds_of: {skip_seed: [0, 1, 2, 3, 4]}}]"
    found = run(tmp_path / "out", methods, timing="{batch_sizes: [1], new_tokens: 4, repeats: 2, seconds: 2}")
    seeds = sorted(config["method"]["params"]["skip_seed"] for (name, *_), config in found.items() if name != "full")
    assert seeds == [0, 1, 2, 3, 4]
    (panel,) = panels(load_points(tmp_path / "out" / "results"))
    (point,) = [point for point in panel.methods if point.method == "random_skip"]
    assert len(point.runs) == 5 and point.get("speedup_layers").seeds is not None
    assert point.get("speedup_wall", 1)  # one of them was timed
    frame = read_results(tmp_path / "out" / "results")
    assert len(frame[(frame.method == "random_skip") & (frame.metric == "speedup_wall")]) == 1


@pytest.mark.parametrize("value", ["{skip_seed: 3}", "{skip_seed: []}", "{skip_seed: [1, 1]}", "{target: [1, 2]}"])
def test_seeds_are_a_list_of_different_numbers(tmp_path, value):
    with pytest.raises(UsageError, match="seeds_of"):
        run(tmp_path / "out", f"[full, {{name: random_skip, seeds_of: {value}}}]")
