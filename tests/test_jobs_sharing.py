"""A timing group whose checkpoints do not fit in memory together: who is timed on whose weights."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from harness import load_method, run_suite
from harness.backbone.tiny import tiny_backbone
from harness.jobs import sharing
from harness.jobs.sharing import fit_together, timed_entry
from harness.suite import load_suite


def run_of(path: str, backbone, key: str = "run"):
    return SimpleNamespace(path=path, backbone=backbone, id=key)


@pytest.mark.parametrize(
    "free, paths, fits",
    [(None, "abcd", True), (0, "aaa", True), (0, "ab", False), (1.25 / 0.8, "aab", True), (1.25 / 0.8, "abc", False),
     (2.5 / 0.8, "abc", True)],
)  # fmt: skip
def test_distinct_checkpoints_are_held_against_the_free_memory(monkeypatch, free, paths, fits):
    backbone = tiny_backbone("opt")
    size = 8 * backbone.num_parameters  # bytes in float64
    monkeypatch.setattr(sharing, "available_memory", lambda device: None if free is None else free * size + 1)
    assert fit_together([run_of(path, backbone) for path in paths]) is fits


def test_guessing_keeps_its_own_weights():
    own, other = run_of("a", tiny_backbone("opt"), "own"), run_of("b", tiny_backbone("opt"), "full")
    guessing = load_method("self_speculative", 6)
    assert timed_entry(own, guessing, other, []).backbone is own.backbone
    schedule = load_method("unified", 6, target=2)
    assert timed_entry(own, schedule, other, []).backbone is other.backbone
    assert timed_entry(own, schedule, None, []).backbone is own.backbone


def test_a_suite_times_all_on_one_checkpoint_where_memory_is_short(tmp_path, monkeypatch):
    raw = load_suite("smoke", {"task": ["e2e"], "method": ["full", "unified", "calm"]}).model_dump()
    raw["tasks"][0]["training"] |= {"base_steps": 20, "own_steps": 2}
    raw["tasks"][0]["timing"] |= {"batch_sizes": [4]}
    raw["tasks"][0]["limit"] = 8
    (tmp_path / "suite.yaml").write_text(json.dumps(raw))
    monkeypatch.setenv("SKIPBENCH_CHECKPOINTS", str(tmp_path / "checkpoints"))
    monkeypatch.setattr(sharing, "available_memory", lambda device: 0)
    root = run_suite(str(tmp_path / "suite.yaml"), tmp_path / "out")
    (file,) = (root / "timing").glob("*.json")
    group = json.loads(file.read_text())
    assert group["shared_weights"] is True
    calm = next(entry for entry in group["methods"] if entry["method"]["name"] == "calm")
    lines = (root / "runs" / calm["run_id"] / "records.jsonl").read_text().splitlines()
    exits = [json.loads(line)["layers_needed"] for line in lines][2:6]  # of eight the middle four, as they are recorded
    steps = group["new_tokens"] - 1
    expected = [(row or [4])[t % len(row or [4])] for row in exits for t in range(steps)]
    assert calm["trace"]["needed"] == pytest.approx(sum(expected) / len(expected))
    assert calm["values"]["speedup_wall"]["value"] > 0
