"""The whole road on stand-ins: run, resume, rerun, fail, plug in."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from helpers.registries import forgotten_afterwards

from harness import Example, Task, read_results, register_task, run_suite
from harness.errors import SkipbenchError, UsageError
from harness.executors import prepare
from harness.jobs.planning import QualityJob, make_jobs
from harness.jobs.quality_run import QualityRun
from harness.jobs.workbench import Workbench
from harness.results import verify
from harness.training import Checkpoints

ROOT = Path(__file__).resolve().parent.parent
OPTIONS = {"task": "e2e", "method": "full,unified,calm"}
DESIGN_PLUGIN = '''
from dataclasses import dataclass
from harness import LayerSchedule, register_method

@register_method("every_other")
@dataclass(frozen=True)
class EveryOther(LayerSchedule):
    """Every second layer, at every step."""
    def layers(self, step: int) -> list[int]:        # step counts from 1; the prompt runs every layer
        return list(range(0, self.num_layers, 2))
'''


@pytest.fixture(autouse=True)
def no_plugin_stays():
    with forgotten_afterwards():
        yield


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    """One checkpoint folder for this file, so that each model is trained once."""
    folder = tmp_path_factory.mktemp("checkpoints")
    old = os.environ.get("SKIPBENCH_CHECKPOINTS")
    os.environ["SKIPBENCH_CHECKPOINTS"] = str(folder)
    yield folder
    os.environ.pop("SKIPBENCH_CHECKPOINTS")
    if old is not None:
        os.environ["SKIPBENCH_CHECKPOINTS"] = old


@pytest.fixture(scope="module")
def finished(checkpoints, tmp_path_factory):
    return run_suite("smoke", tmp_path_factory.mktemp("smoke"), **OPTIONS)


def _files(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in sorted(root.rglob("*")) if p.is_file()}


def test_a_run_leaves_a_tidy_table_with_everything_in_it(finished):
    frame = read_results(finished)
    assert set(frame.method) >= {"full", "unified", "calm"}
    assert set(frame.source) == {"stand-in"}
    for metric in ("e2e_bleu", "rougeL", "length_ratio", "speedup_layers", "speedup_wall", "token_accuracy", "loss"):
        rows = frame[(frame.metric == metric) & (frame.method == "unified")]
        assert len(rows) >= 1 and rows.value.notna().all(), metric
    assert not frame.duplicated(["run_id", "metric", "batch_size"]).any()
    layers = frame[frame.metric == "speedup_layers"]
    assert len(layers) == layers.run_id.nunique() == 3  # of the test set; a timing group's count bears another name
    assert set(frame[frame.metric == "speedup_layers_timed"].run_id) == set(layers.run_id)
    full = frame[(frame.method == "full") & (frame.metric == "speedup_layers")]
    assert set(full.value) == {1.0}
    assert verify(finished).ok


# T05, T09
def test_the_records_hold_what_ran(finished):
    runs = {json.loads(p.read_text())["method"]["name"]: p.parent for p in finished.glob("runs/*/run.json")}
    records = [json.loads(line) for line in (runs["unified"] / "records.jsonl").read_text().splitlines()]
    assert len(records) == 16
    for record in records:
        assert record["length"] == len(record["tokens"])
        assert record["layers_needed"] == [2] * (record["length"] - 1) == record["layers_run"]
    config = json.loads((runs["calm"] / "run.json").read_text())
    assert config["method"]["target"] == 2 and 0 <= config["method"]["params"]["threshold"] <= 1
    assert config["source"] == "stand-in" and len(config["model"]["weights"]) == 64


# T35
def test_a_second_run_decodes_nothing_and_leaves_the_same_bytes(finished, monkeypatch):
    monkeypatch.setattr("harness.runner.attempt", lambda *a: pytest.fail("a finished job was run again"))
    before = _files(finished)
    assert run_suite("smoke", finished, **OPTIONS) == finished
    assert _files(finished) == before


# T35
def test_a_second_run_in_another_process_needs_no_torch_and_leaves_the_same_bytes(finished):
    before = _files(finished)
    code = (
        "import sys; from harness import run_suite; "
        f"run_suite('smoke', {str(finished)!r}, task='e2e', method='full,unified,calm'); "
        "print([m for m in ('torch', 'transformers', 'matplotlib') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout.strip() == "[]", done.stderr
    assert _files(finished) == before


def test_the_plug_in_of_the_readme_runs_from_its_file(checkpoints, tmp_path):
    plugin = tmp_path / "every_other.py"
    plugin.write_text(DESIGN_PLUGIN)
    root = run_suite("smoke", tmp_path / "out", task="e2e", method="full,every_other", plugin=plugin)
    frame = read_results(root)
    ours = frame[frame.method == "every_other"].set_index("metric")
    assert ours.value["speedup_layers"] == 2.0 and set(ours.value["speedup_layers_timed"]) == {2.0}
    assert ours.target_speedup.isna().all()


def test_a_failing_method_hurts_nothing_else(checkpoints, tmp_path):
    plugin = tmp_path / "bad.py"
    plugin.write_text(
        DESIGN_PLUGIN.replace("every_other", "holes").replace("range(0, self.num_layers, 2)", "[step % 2, 3]")
    )
    with pytest.raises(SkipbenchError, match="1 of 6 jobs failed.*layer 0 has no keys and values") as caught:
        run_suite("smoke", tmp_path / "out", task="e2e", method="full,holes", plugin=plugin)
    assert "\n" not in str(caught.value)
    frame = read_results(tmp_path / "out")
    assert "speedup_wall" in set(frame[frame.method == "full"].metric)
    (failure,) = (tmp_path / "out" / "failures").iterdir()
    assert "holes" in json.loads(failure.read_text())["job"]["label"]


# T36
def test_kill_and_go_on_gives_the_same_records(checkpoints, finished, tmp_path):
    """kill -9 once some records are there; the rest follows, nothing is double."""
    out = tmp_path / "killed"
    command = [sys.executable, "-m", "harness.cli", "run", "smoke", "--task", "e2e", "--method", OPTIONS["method"]]
    process = subprocess.Popen([*command, "--out", str(out)], cwd=ROOT, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 600
    while not list(out.glob("runs/*/records.jsonl")):
        assert process.poll() is None and time.monotonic() < deadline, "nothing was recorded"
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL, "it ended before it was killed"
    jobs = json.loads((out / "suite.json").read_text())["jobs"]
    done = {p.parent.name for p in out.glob("runs/*/scores.json")} | {p.stem for p in out.glob("timing/*.json")}
    assert set(jobs) - done, "all jobs were done before it was killed"
    run_suite("smoke", out, **OPTIONS)
    assert verify(out).ok
    same = ("records.jsonl",)
    for name in same:
        ours = {p.parent.name: p.read_bytes() for p in out.glob(f"runs/*/{name}")}
        assert ours == {p.parent.name: p.read_bytes() for p in finished.glob(f"runs/*/{name}")}


@pytest.mark.parametrize("split", ["train", "validation"])
def test_bad_training_data_is_one_line_before_any_job(tmp_path, split):
    for name in ("train", "validation", "test"):
        rows = [{"mr": f"name[{n}]", ("text" if name == split else "ref"): "x"} for n in range(4)]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(UsageError, match=rf"{split}.jsonl, row 1: no column 'ref'; it has 'mr', 'text'"):
        run_suite("smoke", tmp_path / "out", data=tmp_path, **OPTIONS)


@pytest.mark.parametrize("split", ["test", "validation"])
def test_a_prompt_that_does_not_fit_is_known_before_anything_is_trained(monkeypatch, tmp_path, split):
    """One title in a thousand was too long, and that was known after an hour's training."""
    monkeypatch.setattr(Checkpoints, "_train", lambda *args: pytest.fail("something was trained"))

    @register_task("titles")
    class Titles(Task):
        def load(self, name):
            titles = ["one", "two", "word " * (400 if name == split else 1)]
            return [Example(str(i), {"title": title}, (title,)) for i, title in enumerate(titles)]

        def prompt(self, example):
            return example.fields["title"]

    jobs = make_jobs(prepare("smoke", task="titles", method="calm", target=2))
    calm = next(job for job in jobs if isinstance(job, QualityJob) and job.method == "calm")
    with pytest.raises(UsageError, match="'titles': the prompt of example '2' has .* tokens, more than"):
        QualityRun(calm, Workbench(None, Checkpoints(tmp_path))).run()


def test_fresh_forgets_and_runs_again(checkpoints, finished, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(finished, copy)
    stamp = {p: p.stat().st_mtime_ns for p in copy.glob("runs/*/records.jsonl")}
    run_suite("smoke", copy, fresh=True, **OPTIONS)
    assert all(p.stat().st_mtime_ns != old for p, old in stamp.items())
    assert verify(copy).ok


def _edit(path: Path, **fields) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **fields}))


def test_nothing_is_built_on_an_altered_file(checkpoints, finished, tmp_path, monkeypatch):
    copy = tmp_path / "copy"
    shutil.copytree(finished, copy)
    groups = list((copy / "timing").iterdir())
    for path in groups:
        path.unlink()
    (run,) = (p for p in copy.glob("runs/*/run.json") if json.loads(p.read_text())["method"]["name"] == "calm")
    _edit(run, n=15)
    with pytest.raises(SkipbenchError, match="it is not the file that was scored"):
        run_suite("smoke", copy, **OPTIONS)  # a method must not be timed as an altered file describes it
    assert not list((copy / "timing").iterdir())
    shutil.copytree(finished, copy, dirs_exist_ok=True)
    _edit(groups[0], threads=64)
    monkeypatch.setattr("harness.runner.attempt", lambda *a: pytest.fail("a job was run before the file was seen"))
    with pytest.raises(SkipbenchError, match="timing.*it was altered.*--fresh"):
        run_suite("smoke", copy, **OPTIONS)


def test_unknown_executor(tmp_path):
    with pytest.raises(UsageError, match="unknown executor 'slurm'; choose from: local"):
        run_suite("smoke", tmp_path, executor="slurm")


def test_another_suite_in_the_folder_is_said(checkpoints, finished, tmp_path, capsys):
    copy = tmp_path / "copy"
    shutil.copytree(finished, copy)
    own = tmp_path / "mine.yaml"
    own.write_text((ROOT / "harness/suites/smoke.yaml").read_text())
    run_suite("smoke", copy, quiet=False, **OPTIONS)
    assert "holds results of suite" not in capsys.readouterr().err
    run_suite(str(own), copy, quiet=False, **OPTIONS)
    assert f"{copy} holds results of suite 'smoke'; tables and plots will show both" in capsys.readouterr().err
