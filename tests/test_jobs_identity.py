"""T34: a run id changes with everything that may change an output, and with nothing else."""

from __future__ import annotations

import dataclasses
import json

import pytest

from harness.jobs import identity
from harness.jobs.identity import group_id, job_id, run_id
from harness.jobs.planning import FloorJob, QualityJob, TimingJob, make_jobs
from harness.suite import DecodingSpec, TaskSpec, TrainingSpec, load_suite

# a value of every setting that is not the suite's own
TASK = {"model": "mini-opt", "split": "validation", "limit": 3, "metrics": ["comet"]}
DECODING = {
    "batch_size": 3,
    "dtype": "float64",
    "device": "cuda",
    "max_prompt_tokens": 40,
    "max_new_tokens": 9,
    "temperature": 0.5,
    "top_p": 0.5,
}
TRAINING = {
    "base_steps": 7,
    "own_steps": 7,
    "batch_size": 3,
    "base_learning_rate": 0.5,
    "own_learning_rate": 0.5,
    "vocab_size": 400,
    "split": "test",
}
JOB = {
    "data": None,
    "method": "full",
    "params": (("min_exit_layer", 2),),
    "target": 3.0,
    "checkpoint": "base",
    "seed": 1,
}
ELSEWHERE = {"task", "targets", "methods", "checkpoints", "seeds", "training", "decoding"}  # a job has one of each
NO_OUTPUT = {"timing"}  # how long it takes


@pytest.fixture
def job(monkeypatch, tmp_path):
    """A job whose data lie in a folder, which `data=None` leaves for the stand-in."""
    monkeypatch.delenv("SKIPBENCH_DATA", raising=False)
    for split in ("train", "validation", "test"):
        (tmp_path / f"{split}.jsonl").write_text(json.dumps({"mr": split, "ref": "a"}) + "\n")
    suite = load_suite("smoke", {"task": ["e2e"], "method": ["calm"], "data": tmp_path})
    return next(job for job in make_jobs(suite) if isinstance(job, QualityJob) and job.method == "calm")


def varied(job: QualityJob, setting: str, value) -> QualityJob:
    group, _, name = setting.rpartition(".")
    if not group:
        return dataclasses.replace(job, **{name: value})
    part = job.spec if group == "spec" else getattr(job.spec, group)
    changed = part.model_copy(update={name: value})
    return dataclasses.replace(job, spec=changed if group == "spec" else job.spec.model_copy(update={group: changed}))


SETTINGS = {
    **JOB,
    **{f"spec.{name}": value for name, value in TASK.items()},
    **{f"decoding.{name}": value for name, value in DECODING.items()},
    **{f"training.{name}": value for name, value in TRAINING.items()},
    "spec.calibration_examples": 5,
}


def test_no_setting_is_forgotten():
    assert set(TaskSpec.model_fields) == set(TASK) | ELSEWHERE | NO_OUTPUT | {"calibration_examples"}
    assert set(DecodingSpec.model_fields) == set(DECODING)
    assert set(TrainingSpec.model_fields) == set(TRAINING)
    ours = {field.name for field in dataclasses.fields(QualityJob)}
    assert ours == set(JOB) | {"suite", "spec", "tuned", "transfer"}  # an artefact's bytes: test_tuning_commands


@pytest.mark.parametrize("setting", SETTINGS)
def test_every_setting_changes_the_id(job, setting):
    changed = varied(job, setting, SETTINGS[setting])
    assert changed != job and run_id(changed) != run_id(job)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ENGINE_VERSION", -1),
        ("TRAINING_VERSION", -1),
        ("CALIBRATION_VERSION", -1),
        ("source_hash", lambda cls: f"other bytes of {cls.__name__}"),
        ("model_identity", lambda name: f"other weights of {name}"),
    ],
)
def test_code_and_weights_change_the_id(job, monkeypatch, name, value):
    before = run_id(job)
    monkeypatch.setattr(identity, name, value)
    assert run_id(job) != before


@pytest.mark.parametrize("split", ["train", "validation", "test"])
def test_data_change_the_id(job, tmp_path, split):
    before = run_id(job)
    path = tmp_path / f"{split}.jsonl"
    path.write_text(path.read_text().replace('"a"', '"b"'))
    assert run_id(job) != before


def test_what_changes_no_output_changes_no_id(job):
    assert run_id(dataclasses.replace(job, suite="another")) == run_id(job)
    assert run_id(varied(job, "spec.timing", job.spec.timing.model_copy(update={"repeats": 9}))) == run_id(job)


def test_further_metrics_change_the_id_if_the_scores_change(job):
    """Whatever their order, and only those that the task has not itself."""
    own = varied(job, "spec.metrics", ["rougeL", "e2e_bleu"])
    assert run_id(own) == run_id(job)
    both, turned = (
        varied(job, "spec.metrics", m) for m in (["comet", "meteor"], ["meteor", "comet", "rougeL", "comet"])
    )
    assert run_id(both) == run_id(turned) != run_id(varied(job, "spec.metrics", ["comet"]))
    floor = FloorJob(job.suite, job.data, job.spec, "copied source")
    with_more = dataclasses.replace(floor, spec=both.spec)
    assert job_id(floor) == job_id(dataclasses.replace(floor, spec=own.spec)) != job_id(with_more)
    assert floor.place != with_more.place


def test_a_timing_group_does_not_know_the_other_batch_sizes_and_full_depth_no_calibration(job):
    def group(sizes: list[int], **changes) -> str:
        timing = job.spec.timing.model_copy(update={"batch_sizes": sizes, **changes})
        return group_id(TimingJob((varied(job, "spec.timing", timing),), 1))

    assert group([1]) == group([1, 8]) != group([1], repeats=9)
    full = dataclasses.replace(job, method="full", params=(), target=None)
    assert run_id(full) == run_id(varied(full, "spec.calibration_examples", 5))


def test_two_models_of_one_name_are_told_apart_by_their_weights(job, tmp_path):
    folder = tmp_path / "model"
    folder.mkdir()
    ids = set()
    for weights in (b"one", b"two"):
        (folder / "model.safetensors").write_bytes(weights)
        ids.add(run_id(varied(job, "spec.model", str(folder))))
    assert len(ids) == 2


def test_kinds_of_jobs_never_share_an_id():
    jobs = make_jobs(load_suite("smoke"))
    assert len({job_id(job) for job in jobs}) == len(jobs)
    assert any(isinstance(job, FloorJob) for job in jobs)
