"""Data files and sources: what is read, what is refused and with which words, and which source wins."""

import csv
import gzip
import json
import socket
import sys
import time
from types import SimpleNamespace

import pytest

import harness.hub
from harness import load_task
from harness.errors import SkipbenchError, UsageError
from tasks import sources
from tasks.files import read_rows

PAIRS = [("name[Tin Otter], food[French]", "The Tin Otter is French."), ("name[Wren]", "Wren is a pub.")]


@pytest.fixture(autouse=True)
def nowhere(monkeypatch, tmp_path):
    """No data but the test's own, and no network."""
    monkeypatch.delenv("SKIPBENCH_DATA", raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(sources, "CHECKOUT_DATA", tmp_path / "no checkout data")


def write(path, rows, compress=False):
    """Rows as JSON lines."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode()) if compress else text.encode())
    return path


def e2e_folder(folder, splits=("train", "validation", "test")):
    for split in splits:
        write(folder / f"{split}.jsonl", [{"mr": mr, "ref": ref} for mr, ref in PAIRS * 2])
    return folder


# Reading
@pytest.mark.parametrize("name, compress", [("a.jsonl", False), ("a.jsonl.gz", True)])
def test_json_lines_keep_every_character(tmp_path, name, compress):
    texts = ["two\nlines", "carriage\rreturn", "separator\u2028here", "tab\there", "£ é 好", ""]
    path = write(tmp_path / name, [{"ref": text} for text in texts], compress)
    assert [row["ref"] for row in read_rows(path, [], "ref")] == texts


def test_csv_with_quotes_line_breaks_and_long_cells(tmp_path):
    rows = [{"mr": 'a, "b"', "ref": "two\nlines"}, {"mr": "c", "ref": "x" * 200_000}]
    with open(tmp_path / "a.csv", "w", newline="", encoding="utf-8-sig") as file:
        writer = csv.DictWriter(file, ["mr", "ref"])
        writer.writeheader()
        writer.writerows(rows)
    assert read_rows(tmp_path / "a.csv", ["mr"], "ref") == rows


@pytest.mark.parametrize(
    "name, content, message",
    [
        ("a.jsonl", b'{"mr": "a", "ref": "b"}\n{"mr": "a", "re', r"a\.jsonl, row 2: not valid JSON"),
        ("a.jsonl", b'{"mr": "a", "ref": "b"}\n\n[1]\n', "row 2: a row must be a JSON object, not list"),
        (
            "a.jsonl",
            b'{"mr": "a", "text": "b"}\n',
            "row 1: no column 'ref'; it has 'mr', 'text', needed are 'mr', 'ref'",
        ),
        ("a.jsonl", b'{"mr": "a", "ref": 3}\n', "row 1: column 'ref' must be text or a list of texts, not 3"),
        ("a.jsonl", b'{"mr": "a", "ref": null}\n', "column 'ref' must be text"),
        ("a.jsonl", b'{"mr": ["a"], "ref": "b"}\n', "column 'mr' must be text, not "),
        ("a.jsonl", b'{"mr": "a", "ref": []}\n', "column 'ref' must be text"),
        ("a.jsonl", b"", "holds no rows; put at least one there, with the columns 'mr', 'ref'"),
        ("a.jsonl", b'{"mr": "a", "ref": "b"}\n{"mr": "\xff"}\n', "line 2: not UTF-8"),
        ("a.csv", b"mr,text\na,b\n", "no column 'ref'; it has 'mr', 'text'"),
        ("a.csv", b"mr,ref\na,b,c\n", "row 1: the number of cells differs"),
        ("a.csv", b"mr,ref\na,b\nc\n", "row 2: the number of cells differs"),
        ("a.csv", b'mr,ref\na,"b\n', "not valid CSV"),
        ("a.jsonl.gz", gzip.compress(b'{"mr": "a", "ref": "b"}\n' * 99)[:-9], "cannot be read .*; fetch it again"),
        ("a.jsonl.gz", b"not gzip", "cannot be read"),
    ],
)
def test_bad_files_are_refused_by_name_and_row(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UsageError, match=message) as error:
        read_rows(tmp_path / name, ["mr"], "ref")
    assert str(tmp_path / name) in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("change", ["truncated", "reordered", "flipped", "edited"])
def test_a_changed_file_of_a_known_name_is_refused(tmp_path, change):
    path = write(tmp_path / "e2e" / "test.jsonl.gz", [{"mr": mr, "ref": ref} for mr, ref in PAIRS], compress=True)
    if change == "truncated":
        path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(UsageError, match=r"test\.jsonl\.gz is damaged or changed: its SHA-256 is .*not da78d6bd"):
        load_task("e2e", data=tmp_path).load("test")


@pytest.mark.parametrize("change", ["truncated", "reordered", "flipped"])
def test_a_damaged_real_file_is_refused(tmp_path, change):
    from real_data import real_data

    content = (real_data() / "e2e/test.jsonl.gz").read_bytes()
    lines = gzip.decompress(content).splitlines(keepends=True)
    damaged = {
        "truncated": content[: len(content) // 2],
        "reordered": gzip.compress(b"".join([lines[1], lines[0], *lines[2:]])),
        "flipped": content[:5000] + bytes([content[5000] ^ 1]) + content[5001:],
    }[change]
    (tmp_path / "e2e").mkdir()
    (tmp_path / "e2e" / "test.jsonl.gz").write_bytes(damaged)
    with pytest.raises(UsageError, match="damaged or changed"):
        load_task("e2e", data=tmp_path).load("test")
    with pytest.raises(UsageError, match="damaged or changed"):
        load_task("e2e", data=tmp_path).data_hash("test")


# Which source
def test_a_folder_given_wins_and_may_hold_the_files_directly_or_below(tmp_path, monkeypatch):
    monkeypatch.setenv("SKIPBENCH_DATA", str(e2e_folder(tmp_path / "env" / "e2e").parent))
    for folder in (tmp_path / "direct", tmp_path / "below"):
        e2e_folder(folder if folder.name == "direct" else folder / "e2e")
        task = load_task("e2e", data=folder)
        assert task.source == "local" and str(task.place).startswith(str(folder))
        assert len(task.load("test")) == 2
    assert str(load_task("e2e").place) == str(tmp_path / "env" / "e2e")


def test_checkout_data_comes_after_the_environment(tmp_path, monkeypatch):
    monkeypatch.setattr(sources, "CHECKOUT_DATA", e2e_folder(tmp_path / "data" / "e2e").parent)
    assert load_task("e2e").source == "local"
    monkeypatch.setenv("SKIPBENCH_DATA", str(tmp_path))  # exists, but has no e2e of its own
    assert load_task("e2e").place == tmp_path / "data" / "e2e"


@pytest.mark.parametrize("name", ["e2e", "reddit_tldr", "cnn_dm", "translation:de-en"])
def test_a_folder_given_without_the_files_says_what_to_put_where(tmp_path, name):
    for folder in (tmp_path, tmp_path / "missing"):
        with pytest.raises(UsageError, match=r"put .*train.*\.jsonl.* into .*, with the columns '") as error:
            load_task(name, data=folder).load("test")
        assert str(folder) in str(error.value)


def test_one_missing_split_is_named(tmp_path):
    task = load_task("e2e", data=e2e_folder(tmp_path, ["test"]))
    assert len(task.load("test")) == 2
    with pytest.raises(UsageError, match="no file for split 'train'; put train .*'mr', 'ref'"):
        task.load("train")


def test_a_missing_environment_folder_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setenv("SKIPBENCH_DATA", str(tmp_path / "gone"))
    with pytest.raises(UsageError, match="SKIPBENCH_DATA names .*gone"):
        load_task("e2e").load("test")


def test_an_environment_folder_without_this_task_goes_on_to_the_stand_in(tmp_path, monkeypatch):
    e2e_folder(tmp_path / "e2e")
    monkeypatch.setenv("SKIPBENCH_DATA", str(tmp_path))
    assert load_task("e2e").source == "local"
    assert load_task("cnn_dm").source == "stand-in"


@pytest.mark.parametrize("as_folder", [False, True])
def test_one_file_is_cut_into_splits_without_shared_instances(tmp_path, as_folder):
    rows = [{"mr": f"name[N{i}]", "ref": f"text {i} {k}"} for i in range(25) for k in range(2)]
    path = write(tmp_path / "mine.jsonl", rows)
    task = load_task("e2e", data=tmp_path if as_folder else path)
    parts = {split: [e.fields["mr"] for e in task.load(split)] for split in ("train", "validation", "test")}
    assert [len(p) for p in parts.values()] == [21, 2, 2]
    assert sum(parts.values(), []) == [f"name[N{i}]" for i in range(25)]
    assert len({task.data_hash(split) for split in parts}) == 3


def test_a_file_too_short_to_cut_is_refused(tmp_path):
    with pytest.raises(UsageError, match="cutting it into splits needs at least 10"):
        load_task("e2e", data=write(tmp_path / "mine.jsonl", [{"mr": "a", "ref": "b"}])).load("train")


def test_data_hash_follows_the_bytes(tmp_path):
    before = load_task("e2e", data=e2e_folder(tmp_path))
    hashes = before.data_hash("test"), before.data_hash("train")
    with open(tmp_path / "test.jsonl", "a") as file:
        file.write('{"mr": "x", "ref": "y"}\n')
    after = load_task("e2e", data=tmp_path)
    assert after.data_hash("test") != hashes[0] and after.data_hash("train") == hashes[1]


def test_unknown_splits_are_refused():
    with pytest.raises(UsageError, match="unknown split of e2e 'tset'; did you mean test"):
        load_task("e2e").load("tset")


# The hub
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


def test_a_refused_socket_means_stand_in_within_seconds(monkeypatch, unprobed):
    def refuse(*_args, **_kwargs):
        raise OSError("refused")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    started = time.perf_counter()
    for name in ("e2e", "reddit_tldr", "cnn_dm", "translation"):
        assert load_task(name).source == "stand-in"
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
