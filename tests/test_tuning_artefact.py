"""Artefacts of tune and calibrate: what they were made for is checked, in one line naming both values."""

from __future__ import annotations

import dataclasses
import json

import pytest

from harness import load_task
from harness.errors import UsageError
from harness.tuning.artefact import Artefact, check_use, check_weights, layers_of, load_artefact, parameters_for

TASK = load_task("e2e", "stand-in")
MODEL = {"name": "big", "family": "opt", "num_layers": 32, "weights": "a" * 64}
TUNED = Artefact(
    "tuned", "skipdecode", {"warmup": 1}, MODEL, "own", "e2e", "stand-in", TASK.data_hash("validation"), 0,
    ({"target": 2.0, "values": {"min_layers": 0.25, "max_layers": 0.75}, "found": {}},),
)  # fmt: skip
CALIBRATED = dataclasses.replace(
    TUNED, kind="calibrated", method="calm", parameters={"confidence": "softmax"},
    entries=({"target": None, "values": {"threshold": 0.7}, "found": {}},),
)  # fmt: skip


def use(artefact, **other):
    check_use(
        "a.json", artefact, **{"method": artefact.method, "model": "big", "num_layers": 32, "task": TASK, **other}
    )


def test_what_is_saved_is_loaded_and_holds_no_date(tmp_path):
    path = TUNED.save(tmp_path / "deep" / "a.json")
    assert load_artefact(path) == TUNED
    before = path.read_bytes()
    assert TUNED.save(path).read_bytes() == before
    assert json.loads(before)["schema"] == 1


def test_a_32_layer_artefact_on_a_24_layer_model_is_refused():
    with pytest.raises(UsageError, match="another number of layers: 32 there, 24 here"):
        use(TUNED, num_layers=24)


@pytest.mark.parametrize(
    ("other", "message"),
    [
        ({"model": "small"}, "another model: 'big' there, 'small' here"),
        ({"method": "calm"}, "another method: 'skipdecode' there, 'calm' here"),
    ],
)
def test_other_mismatches_are_refused(other, message):
    with pytest.raises(UsageError, match=message) as caught:
        use(TUNED, **other)
    assert "\n" not in str(caught.value)


def test_other_data_of_the_same_task_is_refused_another_task_is_what_fractions_are_for():
    use(TUNED)
    changed = dataclasses.replace(TUNED, data_hash="f" * 64)
    with pytest.raises(UsageError, match="another validation data: 'ffffffffffff' there, '"):
        use(changed)
    use(changed, task=load_task("reddit_tldr", "stand-in"))
    with pytest.raises(UsageError, match="another task: 'e2e' there, 'reddit_tldr' here"):
        use(CALIBRATED, task=load_task("reddit_tldr", "stand-in"))


def test_fractions_go_to_another_model_only_when_told_to_and_thresholds_never():
    use(TUNED, model="small", num_layers=24, transfer=True)
    with pytest.raises(UsageError, match="cannot be transferred"):
        use(CALIBRATED, transfer=True)


def test_fractions_become_counts():
    assert parameters_for("a", TUNED, 32, 2.0, {}) == {"warmup": 1, "min_layers": 8, "max_layers": 24}
    assert parameters_for("a", TUNED, 10, 2.0, {})["min_layers"] == 3  # 2.5, halves up
    assert layers_of(0.01, 12) == 1
    assert all(layers_of(k / n, n) == k for n in range(1, 81) for k in range(1, n + 1))


def test_a_target_without_an_entry_and_a_contradiction_are_refused():
    with pytest.raises(UsageError, match="has no entry for 5x; its targets: 2x"):
        parameters_for("a", TUNED, 32, 5.0, {})
    with pytest.raises(UsageError, match="another confidence of calm: 'softmax' there, 'state' here"):
        parameters_for("a", CALIBRATED, 32, None, {"confidence": "state"})
    assert parameters_for("a", CALIBRATED, 32, None, {"kv": "oracle"})["kv"] == "oracle"


def test_thresholds_belong_to_the_weights_they_were_found_on(tmp_path):
    check_weights(TUNED.save(tmp_path / "t.json"), "b" * 64)
    with pytest.raises(UsageError, match="another checkpoint's weights: 'aaaaaaaaaaaa' there, 'bbbbbbbbbbbb' here"):
        check_weights(CALIBRATED.save(tmp_path / "c.json"), "b" * 64)


@pytest.mark.parametrize(
    "content", ["{", "[]", "{}", '{"schema": 1, "kind": "other"}', '{"schema": 1, "kind": "tuned"}']
)
def test_other_files_are_no_artefacts(tmp_path, content):
    (tmp_path / "a.json").write_text(content)
    with pytest.raises(UsageError, match="is no artefact"):
        load_artefact(tmp_path / "a.json")
    with pytest.raises(UsageError, match="there is no artefact"):
        load_artefact(tmp_path / "missing.json")


@pytest.mark.parametrize(
    "entries",
    [
        1,
        None,
        [1],
        [{}],
        [{"target": 2.0}],
        [{"values": {}}],
        [{"target": "2", "values": {}}],
        [{"target": 2.0, "values": 1}],
        [{"target": 2.0, "values": {"min_layers": "a"}}],
    ],
)
def test_entries_that_are_none_are_refused_when_loaded(tmp_path, entries):
    document = json.loads(TUNED.save(tmp_path / "a.json").read_text())
    (tmp_path / "a.json").write_text(json.dumps(document | {"entries": entries}))
    with pytest.raises(UsageError, match="is no artefact of this version"):
        load_artefact(tmp_path / "a.json")
