"""`smoke` covers every task, from each of the three situations a user can be in."""

import json
import socket

import pytest
from real_data import real_data

import harness.hub
from harness import read_results, run_suite
from harness.registry import METHODS
from harness.results import verify
from harness.suite import load_suite

TASK_NAMES = ("e2e", "reddit_tldr", "translation:de-en", "cnn_dm")
OWN_ROWS = {
    "e2e": {"mr": "name[The Mill], food[{}]", "ref": "The Mill has {} food."},
    "reddit_tldr": {"subreddit": "tea", "title": "On {}", "post": "I like {}. It is good.", "summary": "{} is good"},
    "translation:de-en": {"de": "Ich mag {}.", "en": "I like {}."},
    "cnn_dm": {"article": "The {} won. They lost.", "highlights": "The {} won."},
}
WORDS = ["tea", "rye", "oats", "rice", "corn", "figs", "plums", "leeks", "beans", "peas", "kale", "chard"]


@pytest.fixture(autouse=True)
def checkpoints(tmp_path, monkeypatch):
    monkeypatch.setenv("SKIPBENCH_CHECKPOINTS", str(tmp_path / "checkpoints"))


def short_smoke(tmp_path, task, data, **decoding):
    """The smoke suite with fewer steps, from its own file; the source of its rows."""
    raw = load_suite("smoke", {"task": [task], "method": ["full", "unified"]}).model_dump()
    raw["tasks"][0]["training"] |= {"base_steps": 2, "own_steps": 1}
    raw["tasks"][0]["limit"] = 4
    raw["tasks"][0]["decoding"] |= decoding
    suite = tmp_path / "smoke.yaml"
    suite.write_text(json.dumps(raw))
    root = run_suite(str(suite), tmp_path / "out", data=data)
    assert verify(root).ok
    frame = read_results(root)
    assert set(frame[frame.method == "unified"].task) == {task}
    return set(frame.source)


def test_smoke_runs_every_task_and_method():
    spec = load_suite("smoke")
    assert {entry.task.partition(":")[0] for entry in spec.tasks} == {name.partition(":")[0] for name in TASK_NAMES}
    for name in TASK_NAMES:
        methods = {m.name for entry in spec.tasks if entry.task == name for m in entry.methods}
        assert methods >= {"full", "multi_layer", "skipdecode", "calm", "unified", "random_skip"}
    assert {m.name for entry in spec.tasks for m in entry.methods} == set(METHODS.sources())


@pytest.mark.parametrize("task", TASK_NAMES)
def test_a_refused_hub_means_stand_ins(task, tmp_path, monkeypatch):
    def refuse(*_args, **_kwargs):
        raise OSError("refused")

    monkeypatch.delenv("HF_HUB_OFFLINE")
    harness.hub._probe.cache_clear()
    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    assert short_smoke(tmp_path, task, data="auto") == {"stand-in"}
    harness.hub._probe.cache_clear()


@pytest.mark.parametrize("task", TASK_NAMES)
def test_a_users_own_file(task, tmp_path):
    rows = [{key: text.format(word) for key, text in OWN_ROWS[task].items()} for word in WORDS * 4]
    path = tmp_path / "mine.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert short_smoke(tmp_path, task, data=path) == {"local"}


@pytest.mark.long
@pytest.mark.parametrize("task", TASK_NAMES)
def test_the_real_data(task, tmp_path):
    long = {"max_prompt_tokens": 512}  # with smoke's small vocabulary some titles alone take more than its limit
    assert short_smoke(tmp_path, task, data=real_data(), **long) == {"local"}
