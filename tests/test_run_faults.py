"""What is wrong in one place of a run hurts no other place: a member of a timing group, a file in the folder."""

from __future__ import annotations

import json
import shutil

import pytest
from helpers.registries import forgotten_afterwards
from results_fixtures import metric, record, run_config

from harness import read_results, run_suite
from harness.commands.listing import plan_text
from harness.errors import JobsFailed, SkipbenchError, UsageError
from harness.executors import prepare
from harness.jobs.identity import job_id
from harness.jobs.planning import TimingJob, make_jobs
from harness.jobs.rescoring import rescore
from harness.jobs.scorer import is_scored, scorer
from harness.results import Store, load_failures, verify
from harness.results.encoding import dumps, seal
from harness.scoring.names import Unavailable
from harness.suite import load_suite

PLUGINS = '''
from __future__ import annotations
import enum, math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from harness import LayerSchedule, register_method

if TYPE_CHECKING:
    from torch import Tensor

class Side(enum.Enum):
    LEFT = "left"

@register_method("fields")
@dataclass(frozen=True)
class Fields(LayerSchedule):
    """Harmless fields of many kinds."""
    order: tuple = field(init=False, default=())
    keep: list[int] = field(default_factory=lambda: [0, 1])
    limit: float = math.inf
    sides: dict[int, Side] = field(default_factory=lambda: {1: Side.LEFT})
    weights: Tensor | None = None

    def layers(self, step):
        assert self.keep + [] and self.sides[1] is Side.LEFT and self.limit == math.inf
        return self.keep

@register_method("late")
@dataclass(frozen=True)
class Late(LayerSchedule):
    """Knows no more steps than its own outputs have."""
    def layers(self, step):
        return [[0, 1], [0, 1], [0, 1]][step - 1]

@register_method("function")
@dataclass(frozen=True)
class Function(LayerSchedule):
    """Has a field that no file holds."""
    pick: object = len

    def layers(self, step):
        return [0]
'''


@pytest.fixture(autouse=True)
def no_plugin_stays():
    with forgotten_afterwards():
        yield


@pytest.fixture
def plugin(tmp_path):
    (tmp_path / "mine.py").write_text(PLUGINS)
    return tmp_path / "mine.py"


@pytest.fixture
def attempted(monkeypatch):
    """Jobs that a run would do, none of which is done."""
    names: list[str] = []
    monkeypatch.setattr("harness.runner.attempt", lambda name, job, bench: names.append(name))
    return names


def ids(**options) -> dict:
    return {job_id(job): job for job in make_jobs(prepare("smoke", **options))}


def small_suite(folder) -> str:
    raw = load_suite("smoke", {"task": ["e2e"], "method": ["full"]}).model_dump()
    raw["tasks"][0]["training"] |= {"base_steps": 2, "own_steps": 1}
    raw["tasks"][0]["decoding"] |= {"max_new_tokens": 4}  # and 8 are timed
    raw["tasks"][0]["timing"] |= {"batch_sizes": [2], "repeats": 1}
    raw["tasks"][0] |= {"limit": 2, "methods": ["full", "fields", "late"]}
    (folder / "small.yaml").write_text(json.dumps(raw))
    return str(folder / "small.yaml")


def test_a_method_that_fails_while_it_is_timed_takes_no_other_along(tmp_path, plugin, monkeypatch):
    monkeypatch.setenv("SKIPBENCH_CHECKPOINTS", str(tmp_path / "checkpoints"))
    suite, root = small_suite(tmp_path), tmp_path / "out"
    reason = "1 of 3 methods could not be timed: .*late.* fails while it is timed: IndexError: list index out of range"
    with pytest.raises(JobsFailed, match=f"1 of 6 jobs failed; .*{reason}"):
        run_suite(suite, root, plugin=plugin)
    frame = read_results(root)
    assert set(frame[frame.metric == "speedup_wall"].method) == {"full", "fields"}
    (path,) = (root / "timing").glob("*.json")
    group = json.loads(path.read_text())
    ((run_id, why),) = group["failed"].items()
    assert "late" in run_id and "IndexError" in why and group["missing"] == []
    assert load_failures(root).keys() == {path.stem}
    assert any("could not be timed" in problem for problem in verify(root).problems)
    assert "could not be timed" in (root / "report.html").read_text()
    before = path.stat().st_mtime_ns
    with pytest.raises(JobsFailed, match="1 of 6 jobs failed"):
        run_suite(suite, root, plugin=plugin)  # it is tried again, as a failed run is
    assert path.stat().st_mtime_ns > before

    fields = next(p for p in root.glob("runs/*/run.json") if json.loads(p.read_text())["method"]["name"] == "fields")
    params = json.loads(fields.read_text())["method"]["params"]
    assert params == {"keep": [0, 1], "limit": "inf", "sides": {"1": "left"}, "weights": None}


@pytest.mark.parametrize("planned", [True, False])
@pytest.mark.parametrize(
    "method, message",
    [
        ("function", "function: parameter pick=.* cannot be recorded in run.json"),
        ("fields:weights=3", "fields: parameter weights cannot be given: its type 'Tensor . None' cannot be read"),
        ("fields:keep=x", "fields: parameter keep='x'"),
    ],
)
def test_what_cannot_be_recorded_or_read_is_said_before_anything_runs(
    tmp_path, plugin, attempted, method, message, planned
):
    options = {"task": "e2e", "method": ["full", method], "plugin": plugin}
    with pytest.raises(UsageError, match=message):
        if planned:
            plan_text(prepare("smoke", **options), tmp_path / "out")
        else:
            run_suite("smoke", tmp_path / "out", **options)
    assert not attempted and not (tmp_path / "out").exists()


@pytest.mark.parametrize("value", ["[1]", "[1, 2]"])
def test_a_list_can_be_given(plugin, value):
    plan = prepare("smoke", task="e2e", method=["full", f"fields:keep={value}"], plugin=plugin)
    assert f"keep={value}" in plan_text(plan, None)


OPTIONS = {"task": "e2e,cnn_dm", "method": "full"}


def strange(root, kind: str):
    """Put something into a results folder that skipbench did not write there; what to move out."""
    if kind == "leftover":
        (root / "runs" / "notes").mkdir(parents=True)
        (root / "runs" / "notes" / "x.txt").write_text("mine")
        return root / "runs" / "notes"
    if kind == "copy":
        folder = root / "runs" / "one (copy)"
        folder.mkdir(parents=True)
        (folder / "run.json").write_text('{"schema": 1, "run_id": "one", "task": "e2e", "method": {"name": "full"}}')
        return folder
    (root / "timing").mkdir(parents=True)
    (root / "timing" / "other.json").write_text("[]")
    return root / "timing" / "other.json"


@pytest.mark.parametrize("kind", ["leftover", "copy", "timing"])
def test_what_is_not_ours_stops_no_job_and_is_named_at_the_end(tmp_path, attempted, capsys, kind):
    root = tmp_path / "out"
    part = strange(root, kind)
    with pytest.raises(SkipbenchError) as caught:
        run_suite("smoke", root, quiet=False, **OPTIONS)
    assert attempted == list(ids(**OPTIONS))
    assert f"move {part} elsewhere" in str(caught.value) and caught.value.exit_code == 1
    assert capsys.readouterr().err.count("no report yet, but the jobs go on") == 1
    with pytest.raises(SkipbenchError, match="elsewhere"):
        run_suite("smoke", root, fresh=True, **OPTIONS)  # which forgets the suite's own alone, as the message says
    shutil.move(part, tmp_path / "elsewhere")
    run_suite("smoke", root, **OPTIONS)  # the advice works


def test_failed_jobs_are_named_beside_a_file_that_is_not_ours(tmp_path, monkeypatch):
    strange(tmp_path, "leftover")
    monkeypatch.setattr("harness.runner.attempt", lambda name, job, bench: "it is broken")
    with pytest.raises(SkipbenchError, match="jobs failed;.*it is broken. And there is no report: .*notes") as caught:
        run_suite("smoke", tmp_path, task="e2e", method="full")
    assert not isinstance(caught.value, JobsFailed)  # whose folder is looked at


def test_a_damaged_timing_file_fails_its_own_job_alone(tmp_path, attempted):
    jobs = ids(task="e2e", method="full")
    groups = [name for name, job in jobs.items() if isinstance(job, TimingJob)]
    (tmp_path / "timing").mkdir()
    (tmp_path / "timing" / f"{groups[0]}.json").write_text('{"schema": 1')
    with pytest.raises(
        SkipbenchError, match=f"1 of {len(jobs)} jobs failed.*timing at batch 1: cannot read .*{groups[0]}"
    ):
        run_suite("smoke", tmp_path, task="e2e", method="full")
    assert attempted == [name for name in jobs if name != groups[0]]
    run_suite("smoke", tmp_path, fresh=True, task="e2e", method="full")  # a file of its own it makes anew


def test_what_other_code_has_scored_is_scored_anew_from_its_records(tmp_path, monkeypatch):
    """No model is loaded: the second run would fail if it asked for one."""
    monkeypatch.setenv("SKIPBENCH_CHECKPOINTS", str(tmp_path / "checkpoints"))
    raw = load_suite("smoke", {"task": ["e2e"], "method": ["full"]}).model_dump()
    raw["tasks"][0]["training"] |= {"base_steps": 2, "own_steps": 1}
    raw["tasks"][0]["decoding"] |= {"max_new_tokens": 4}
    raw["tasks"][0]["timing"] |= {"batch_sizes": []}
    raw["tasks"][0] |= {"limit": 2}
    (tmp_path / "small.yaml").write_text(json.dumps(raw))
    root = run_suite(str(tmp_path / "small.yaml"), tmp_path / "out")
    paths = sorted(root.glob("runs/*/scores.json"))
    right = {path: path.read_bytes() for path in paths}
    assert len(paths) == 3 and all(json.loads(text)["scorer"] == scorer() for text in right.values())  # and two floors

    older = {"code": "of last year", "sacrebleu": "1.0"}
    for path in paths:
        scores = json.loads(path.read_text())
        values = {**scores["values"], "rougeL": {"value": 99.0, "low": None, "high": None, "note": "wrong"}}
        del scores["sha256"]
        path.write_text(dumps(seal({**scores, "values": values, "scorer": older})))
    monkeypatch.setattr("harness.jobs.quality.decode", None)
    monkeypatch.setattr("harness.jobs.quality_run.QualityRun.backbone", None)
    run_suite(str(tmp_path / "small.yaml"), root)
    assert {path: path.read_bytes() for path in paths} == right
    assert verify(root).ok and 99.0 not in set(read_results(root).value)

    for path in paths:  # a metric that was available where it was scored first
        scores = {k: v for k, v in json.loads(right[path]).items() if k != "sha256"}
        path.write_text(dumps(seal({**scores, "scorer": older})))
    monkeypatch.setattr("harness.scoring.rouge.statistics", _unavailable)
    run_suite(str(tmp_path / "small.yaml"), root)
    for path in paths:
        found, before = (json.loads(text)["values"]["rougeL"] for text in (path.read_bytes(), right[path]))
        assert found["value"] == before["value"] and found["note"].endswith(
            "by an older version, for here it is unavailable"
        )


def _unavailable(*args):
    raise Unavailable("no network")


def test_altered_records_are_not_scored_anew(tmp_path):
    with Store(tmp_path) as store:
        run = store.open_run(next(iter(jobs := ids(task="e2e", method="full"))), run_config(n=1))
        run.append([record(0, 0)])
        run.finish({"e2e_bleu": metric(50.0, 2.0)}, scorer={"code": "older"})
        path = run.folder / "records.jsonl"
        path.write_bytes(path.read_bytes().replace(b'"batch"', b'"Batch"'))
        assert not is_scored(run.folder.name, store)
        with pytest.raises(SkipbenchError, match="records.jsonl"):
            rescore(jobs[run.folder.name], store)
