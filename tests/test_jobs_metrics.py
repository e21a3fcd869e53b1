"""The metrics of a run: the task's own, those a suite asks for beside them, and what a record says of them."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace

import pytest

from harness import Example, Task, read_results, run_suite
from harness.errors import UsageError
from harness.executors import prepare
from harness.jobs.quality import source_texts
from harness.results import verify
from harness.suite import load_suite

SUITE = """
data: stand-in
model: nano-opt
targets: []
methods: [full]
limit: 4
metrics: [comet, meteor, chrf]
training: {base_steps: 1, own_steps: 1, batch_size: 4, base_learning_rate: 0.001, own_learning_rate: 0.001}
decoding: {batch_size: 4, max_prompt_tokens: 64, max_new_tokens: 6}
tasks: ["translation:de-en"]
"""


@pytest.fixture(scope="module")
def checkpoints(tmp_path_factory):
    return tmp_path_factory.mktemp("checkpoints")


@pytest.fixture(autouse=True)
def trained_once(checkpoints, monkeypatch):
    monkeypatch.setenv("SKIPBENCH_CHECKPOINTS", str(checkpoints))


@pytest.fixture
def suite(tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(SUITE)
    return path


@pytest.fixture
def asked(monkeypatch):
    """What a faked `evaluate` was asked, by metric; the hub answers."""
    calls = {"comet": [], "meteor": []}

    def load(name):
        def compute(**texts):
            calls[name].append(texts)
            return {"scores": [0.25] * len(texts["predictions"])} if name == "comet" else {"meteor": 0.5}

        return SimpleNamespace(compute=compute)

    monkeypatch.setattr("harness.scoring.hub_metrics.hub_answers", lambda: True)
    monkeypatch.setitem(sys.modules, "evaluate", SimpleNamespace(load=load, __version__="0"))
    return calls


def documents(root, name):
    """{method: the content of a file of its run}."""
    runs = {json.loads(p.read_text())["method"]["name"]: p.parent for p in root.glob("runs/*/run.json")}
    return {method: json.loads((folder / name).read_text()) for method, folder in runs.items()}


def test_comet_is_given_the_sources(suite, tmp_path, asked):
    root = run_suite(str(suite), tmp_path / "out")
    examples = {e.fields["source"]: e.references[0] for e in prepared_task().load("test")[:4]}
    for call in asked["comet"]:
        assert [examples[source] for source in call["sources"]] == call["references"]
    assert len(asked["comet"]) == 3 and all(len(call["sources"]) == 4 for call in asked["comet"])  # full, two floors
    for method in ("full", "floor"):
        values = documents(root, "scores.json")[method]["values"]
        assert (values["comet"]["value"], values["meteor"]["value"]) == (25, 50) and values["bleu"]["value"] is not None
        assert documents(root, "scores.json")[method]["per_example"]["comet"] == [25] * 4
        assert documents(root, "run.json")[method]["metrics"][-2:] == ["comet", "meteor"]  # chrf is the task's own
    assert verify(root).ok


def prepared_task():
    from harness import load_task

    return load_task("translation:de-en", "stand-in")


def test_an_unavailable_metric_is_recorded_with_its_reason_and_said(suite, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    root = run_suite(str(suite), tmp_path / "out", quiet=False)
    for method in ("full", "floor"):
        value = documents(root, "scores.json")[method]["values"]["comet"]
        assert value["value"] is None and "hub, which does not answer" in value["note"]
    said = capsys.readouterr()
    assert "metric 'comet' is unavailable: it is loaded from the Hugging Face hub" in " ".join(
        (said.out + said.err).split()
    )
    frame = read_results(root)
    assert frame[frame.metric == "comet"].value.isna().all() and len(frame[frame.metric == "comet"]) == 3


@pytest.mark.parametrize(
    ("metrics", "message"),
    [
        ("[commet]", "unknown metric 'commet'; did you mean comet?"),
        ("comet", "metrics: input should be a valid list"),
        ("[1]", "metrics.0: input should be a valid string"),
        ("{comet: 1}", "metrics: input should be a valid list"),
    ],
)
def test_wrong_metrics_are_one_line_before_anything_runs(suite, metrics, message):
    suite.write_text(SUITE.replace("[comet, meteor, chrf]", metrics))
    with pytest.raises(UsageError, match=message):
        prepare(str(suite))


def test_a_task_entrys_metrics_replace_the_suites(suite):
    suite.write_text(SUITE.replace('["translation:de-en"]', "[e2e, {task: cnn_dm, metrics: [bertscore]}]"))
    assert [spec.metrics for spec in load_suite(str(suite)).tasks] == [["comet", "meteor", "chrf"], ["bertscore"]]


class Bare(Task):
    name = "bare"


@pytest.mark.parametrize(
    ("field", "fields", "expected"),
    [("s", {"s": "x"}, ["x"]), (None, {"s": "x"}, None), ("t", {"s": "x"}, None), ("s", {"s": 3}, None)],
)
def test_sources_are_the_document_field(field, fields, expected):
    task = Bare()
    task.document_field = field
    assert source_texts(task, [Example("0", fields, ("r",))]) == expected


def test_a_record_says_what_its_numbers_can_be_compared_with(suite, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    root = run_suite(str(suite), tmp_path / "out")
    assert all("no published number" in config["comparable"] for config in documents(root, "run.json").values())
    rows = [{"de": f"Ich sehe {n} Hunde.", "en": f"I see {n} dogs."} for n in range(40)]
    (tmp_path / "mine.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    root = run_suite(str(suite), tmp_path / "local", data=tmp_path / "mine.jsonl")
    assert all("sacreBLEU" in config["comparable"] for config in documents(root, "run.json").values())
