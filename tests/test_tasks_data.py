"""Data files and sources: what is read, what is refused and with which words, and which source wins."""

import csv
import gzip
import json

import pytest

from harness import load_task
from harness.errors import UsageError
from tasks import sources
from tasks.files import read_rows, texts

# no time stamp: a test's name holds the bytes, and every process that collects the tests must find the same names
CUT_SHORT = gzip.compress(b'{"mr": "a", "ref": "b"}\n' * 99, mtime=0)[:-9]
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
    path.write_bytes(gzip.compress(text.encode(), mtime=0) if compress else text.encode())
    return path


def e2e_folder(folder, splits=("train", "validation", "test")):
    for split in splits:
        write(folder / f"{split}.jsonl", [{"mr": mr, "ref": ref} for mr, ref in PAIRS * 2])
    return folder


# Reading
@pytest.mark.parametrize("name, compress", [("a.jsonl", False), ("a.jsonl.gz", True)])
def test_json_lines_keep_every_character(tmp_path, name, compress):
    texts = ["two\nlines", "carriage\rreturn", "separator\u2028here", "tab\there", "£ é 好", ""]
    path = write(tmp_path / name, [{"mr": text, "ref": "x"} for text in texts], compress)
    assert [row["mr"] for row in read_rows(path, ["mr"], "ref")] == texts


def test_a_blank_reference_is_none_and_a_row_without_any_is_refused(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("src,ref_A,ref_B,ref_C\na,A dog runs fast,, \n")
    assert [texts(row, "ref|ref_*") for row in read_rows(path, ["src"], "ref|ref_*")] == [("A dog runs fast",)]
    path.write_text("src,ref_A,ref_B\na,x,y\nb,, \n")
    with pytest.raises(UsageError, match=r"a.csv, row 2: 'ref' or 'ref_\*' holds no text, so there is no reference"):
        read_rows(path, ["src"], "ref|ref_*")
    with pytest.raises(UsageError, match="row 1: 'ref' holds no text"):
        read_rows(write(tmp_path / "b.jsonl", [{"mr": "a", "ref": [""]}]), ["mr"], "ref")


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
        ("a.jsonl.gz", CUT_SHORT, "cannot be read .*; fetch it again"),
        ("a.jsonl.gz", b"not gzip", "cannot be read"),
        ("a.jsonl", b'{"mr": ' + b"[" * 99_999 + b"]" * 99_999 + b"}", "row 1: not valid JSON"),
        ("a.jsonl", b'{"mr": "a", "ref": "b", "n": ' + b"9" * 9999 + b"}", "row 1: not valid JSON"),
        ("a.jsonl", b'{"mr": "a", "ref": "b", "ref": "c"}', "row 1: not valid JSON .it names 'ref' twice."),
        ("a.jsonl", b'{"mr": "a", "ref": ["b", "\\ud83d"]}', "row 1: column 'ref' holds half a surrogate pair"),
        ("a.csv", b"mr,ref,ref\na,b,c\n", "its header names column 'ref' twice"),
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
        "reordered": gzip.compress(b"".join([lines[1], lines[0], *lines[2:]]), mtime=0),
        "flipped": content[:5000] + bytes([content[5000] ^ 1]) + content[5001:],
    }[change]
    (tmp_path / "e2e").mkdir()
    (tmp_path / "e2e" / "test.jsonl.gz").write_bytes(damaged)
    with pytest.raises(UsageError, match="damaged or changed"):
        load_task("e2e", data=tmp_path).load("test")
    with pytest.raises(UsageError, match="damaged or changed"):
        load_task("e2e", data=tmp_path).data_hash("test")


# Which source; T31: what is missing, and what to put where
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


def test_stand_ins_can_be_asked_for(tmp_path, monkeypatch):
    monkeypatch.setenv("SKIPBENCH_DATA", str(e2e_folder(tmp_path / "e2e").parent))
    assert load_task("e2e", data="stand-in").source == "stand-in"


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
