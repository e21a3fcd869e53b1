"""The hub as a source: what is asked of it, and how soon it is given up."""

import socket
import sys
import time
from types import SimpleNamespace

import pytest

import harness.hub
from harness import load_task
from harness.errors import SkipbenchError, UsageError
from harness.task import examples_of
from tasks import sources

PAIRS = [("name[Tin Otter], food[French]", "The Tin Otter is French."), ("name[Wren]", "Wren is a pub.")]


@pytest.fixture(autouse=True)
def nowhere(monkeypatch, tmp_path):
    """No local data, and no network unless a test fakes it."""
    monkeypatch.delenv("SKIPBENCH_DATA", raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(sources, "CHECKOUT_DATA", tmp_path / "no checkout data")


def fake_hub(monkeypatch, load):
    monkeypatch.delenv("HF_HUB_OFFLINE")
    monkeypatch.setattr("tasks.sources.hub_answers", lambda: True)
    monkeypatch.setitem(sys.modules, "datasets", SimpleNamespace(load_dataset=load))


def test_hub_files_are_parquet_at_a_pinned_revision(monkeypatch):
    asked = []

    def load(kind, data_files, split):
        asked.append((kind, data_files, split))
        return [{"meaning_representation": mr, "human_reference": ref} for mr, ref in PAIRS]

    fake_hub(monkeypatch, load)
    task = load_task("e2e")
    assert task.source == "hub" and [e.references for e in task.load("test")] == [(PAIRS[0][1],), (PAIRS[1][1],)]
    task.load("test")
    assert len(asked) == 1 and asked[0][0] == "parquet" and asked[0][2] == "test"
    for name in ("e2e", "reddit_tldr", "cnn_dm", *(f"translation:{p}" for p in ("de-en", "zh-en", "ro-en"))):
        for split, file in load_task(name).hub_files.items():
            assert len(file.revision) == 40 and file.url.startswith("hf://datasets/") and file.path.endswith(".parquet")
            assert split in file.path


def test_hub_prompts_of_tldr_are_taken_apart(monkeypatch):
    prompt = "SUBREDDIT: r/garden\n\nTITLE: A title\n\nPOST: First line\n\nTL;DR: not yet.\nLast.\n\nTL;DR:"
    fake_hub(monkeypatch, lambda *_args, **_kwargs: [{"prompt": prompt, "completion": " Short. "}])
    task = load_task("reddit_tldr")
    (example,) = task.load("train")
    assert example.references == ("Short.",) and task.prompt(example) == prompt


def test_no_hub_row_of_tldr_is_lost(monkeypatch):
    """Ids are the hub's row numbers, and a row that is no such prompt is named rather than left out."""
    rows = [{"prompt": f"SUBREDDIT: r/a\n\nTITLE: {n}\n\nPOST: \n\nTL;DR:", "completion": f" {n}"} for n in range(3)]
    fake_hub(monkeypatch, lambda *_args, **_kwargs: rows)
    examples = load_task("reddit_tldr").load("train")
    assert [(e.id, e.fields["title"], e.references) for e in examples] == [
        (str(n), str(n), (str(n),)) for n in range(3)
    ]
    rows[1] = {"prompt": "TITLE: no subreddit\n\nTL;DR:", "completion": " 1"}
    with pytest.raises(
        UsageError, match="row 1 of hf://datasets/trl-lib/tldr.* is of another form.*TITLE: no subreddit"
    ):
        load_task("reddit_tldr").load("test")


@pytest.mark.parametrize("name", ["e2e", "reddit_tldr", "cnn_dm", "translation:de-en", "translation:zh-en"])
def test_a_hub_row_of_another_form_is_named(monkeypatch, name):
    fake_hub(monkeypatch, lambda *_args, **_kwargs: [{"other": "text"}])
    with pytest.raises(UsageError, match="row 0 of hf:.* is of another form than the task knows: {'other': 'text'}"):
        examples_of(load_task(name), "test")


def test_hub_translations_lie_in_one_column(monkeypatch):
    asked = []

    def load(kind, data_files, split):
        asked.append(split)
        return [{"translation": {"en": "Hello", "zh": "你好"}}]

    fake_hub(monkeypatch, load)
    (example,) = load_task("translation:en-zh").load("train")
    assert (example.fields["source"], example.references) == ("Hello", ("你好",))
    assert asked == ["train[:100000]"]


def test_a_hub_that_fails_later_does_not_mix_sources(monkeypatch):
    def load(*_args, **_kwargs):
        raise ConnectionError("gone")

    fake_hub(monkeypatch, load)
    with pytest.raises(SkipbenchError, match="HF_HUB_OFFLINE=1") as error:
        load_task("e2e").load("test")
    assert not isinstance(error.value, UsageError)


@pytest.fixture
def unprobed(monkeypatch):
    monkeypatch.delenv("HF_HUB_OFFLINE")
    probe = harness.hub._probe
    probe.cache_clear()
    yield
    probe.cache_clear()


# T30, T32: no script, no network
def test_a_refused_socket_means_stand_in_within_seconds(monkeypatch, unprobed):
    def refuse(*_args, **_kwargs):
        raise OSError("refused")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    started = time.perf_counter()
    for name in ("e2e", "reddit_tldr", "cnn_dm", "translation"):
        task = load_task(name)
        assert task.source == "stand-in" and len(task.load("test")) >= 100
    assert time.perf_counter() - started < 5 and "datasets" not in sys.modules


def test_a_hanging_name_server_is_given_up(monkeypatch, unprobed):
    monkeypatch.setattr(harness.hub, "PROBE_SECONDS", 0.2)
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_args, **_kwargs: time.sleep(3))
    started = time.perf_counter()
    assert not harness.hub.hub_answers()
    assert time.perf_counter() - started < 1.5


@pytest.mark.parametrize("name", ["HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE"])
def test_offline_flags_are_respected_without_a_try(monkeypatch, unprobed, name):
    monkeypatch.setenv(name, "true")
    monkeypatch.setattr(harness.hub, "_probe", lambda _endpoint: pytest.fail("asked the hub"))
    assert not harness.hub.hub_answers()
