"""Task plug-ins: what they may return, and that a broken one is one clear line before anything runs."""

from __future__ import annotations

import numpy as np
import pytest
from helpers.registries import forgotten_afterwards

from harness import Example
from harness.commands.listing import plan_text
from harness.errors import UsageError
from harness.executors import prepare, run_suite
from harness.task import examples_of, hash_examples

PLUGIN = """
from harness import Example, Task, register_task

@register_task("mine")
class Mine(Task):
    {settings}
    def load(self, split):
        {body}
    def prompt(self, example):
        return example.fields["s"]
"""
ONE = "return [Example('0', {'s': 'x'}, ['r'])]"


@pytest.fixture(autouse=True)
def clean():
    with forgotten_afterwards():
        yield


def suite(tmp_path, body, settings="metrics = ('bleu',)"):
    path = tmp_path / "mine.py"
    path.write_text(PLUGIN.format(body=body, settings=settings))
    return {"task": "mine", "method": "full", "plugin": path}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return None", r"load\('test'\) fails: TypeError"),
        ("return []", r"load\('test'\) must return at least one Example, and nothing else, not 'none'"),
        ("return 1 / 0", r"load\('test'\) fails: ZeroDivisionError: division by zero"),
        ("return ['a']", "must return at least one Example, and nothing else, not 'a'"),
        ("return [{'id': '0'}]", "nothing else, not {'id': '0'}"),
        ("return [Example('7', {'s': 'x'}, 'ref')]", "example '7': references must be a list of strings, not 'ref'"),
        ("return [Example('7', {'s': 'x'}, None)]", "example '7': references must be a list of strings, not None"),
        ("return [Example('7', {'s': 'x'}, [None])]", r"references must be a list of strings, not \[None\]"),
        ("return [Example('7', {'s': 'x'}, [])]", r"example '7' needs at least one reference"),
        ("return [Example('7', {'s': 'x'}, ['a', ' '])]", r"none that is blank, not \['a', ' '\]"),
        ("return [Example('7', 'x', ['r'])]", "example '7': fields must be a mapping"),
        (
            "import datetime; return [Example('7', {'s': 'x', 'on': datetime.date(2020, 1, 1)}, ['r'])]",
            r"task 'mine': load\('test'\): example '7': field 'on' is a date that cannot be hashed .*give it as a text",
        ),
        ("return [Example('7', {'s': 'x', 'rows': [{1}]}, ['r'])]", "example '7': field 'rows' is a list .*type set"),
        ("return [Example('7', {'s': 'x', (1, 2): 'y'}, ['r'])]", r"example '7': field \(1, 2\) is a str .*keys must"),
        ("return [Example('7', {'s': 'x', 1: 'y'}, ['r'])]", "example '7': field 1 is a str .*not supported between"),
        ("return [Example('7', {'s': 'x'}, ['r'])] * 2", "the id '7' belongs to several examples"),
    ],
)
@pytest.mark.parametrize("planned", [True, False])
def test_a_broken_load_is_one_line_before_anything_runs(tmp_path, body, message, planned):
    options = suite(tmp_path, body)
    with pytest.raises(UsageError, match=message) as caught:
        if planned:
            plan_text(prepare("smoke", **options), tmp_path / "out")
        else:
            run_suite("smoke", tmp_path / "out", **options)
    assert "\n" not in str(caught.value) and not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("metrics = ('bluu',)", "unknown metric 'bluu'; did you mean bleu"),
        ("metrics = ('repetition', 'rougeL')", "'repetition' as its first metric.*not better; .*such as 'rougeL'"),
        ("metrics = ('length_ratio',)", "'length_ratio' as its first metric"),
        ("metrics = 'bleu'", "metrics must be a list of names, not 'bleu'"),
        ("language = 'English'", "language must be a code such as 'en' or 'zh', not 'English'"),
    ],
)
def test_what_would_fail_after_decoding_is_asked_first(tmp_path, settings, message):
    with pytest.raises(UsageError, match=message):
        plan_text(prepare("smoke", **suite(tmp_path, ONE, settings)), tmp_path / "out")


def test_a_split_that_fails_later_is_named_too(tmp_path):
    body = f"if split == 'train': raise KeyError(split)\n        {ONE}"
    with pytest.raises(UsageError, match=r"task 'mine': load\('train'\) fails: KeyError: 'train'"):
        plan_text(prepare("smoke", **suite(tmp_path, body)), tmp_path / "out")


def test_a_generator_and_numbered_ids_serve(tmp_path):
    spec = prepare("smoke", **suite(tmp_path, "yield Example(0, {'s': 'x'}, ('r',))"))
    assert "1 plug-in examples" in plan_text(spec, tmp_path / "out")


def test_examples_of_keeps_order_and_content():
    class Two:
        label = "two"

        def load(self, split):
            return (Example(i, {}, [split]) for i in "ba")

    assert [(e.id, e.references) for e in examples_of(Two(), "test")] == [("b", ("test",)), ("a", ("test",))]


def test_numbers_of_a_data_frame_are_numbers():
    fields = {"n": np.int64(3), "share": np.float32(0.5), "yes": np.bool_(True), "rows": [np.int8(1), (np.int8(2),)]}
    plain = {"n": 3, "share": 0.5, "yes": True, "rows": [1, (2,)]}
    ours, theirs = (Example("0", {"s": "x", **given}, ["r"]) for given in (fields, plain))
    assert ours == theirs and hash_examples([ours]) == hash_examples([theirs])
    assert [type(value) for value in ours.fields.values()] == [str, int, float, bool, list]
    texts = {"s": "x"}
    assert Example("0", texts, ["r"]).fields is texts
