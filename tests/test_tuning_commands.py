"""tune, calibrate and diagnose from end to end on stand-ins, and their artefacts in a suite."""

from __future__ import annotations

import csv
import hashlib
import json

import pytest
from helpers.registries import forgotten_afterwards

from harness import read_results, run_suite
from harness.commands.calibration import calibrate, dissimilarity, lost
from harness.commands.diagnosis import diagnose
from harness.commands.tune import tune
from harness.errors import SkipbenchError, UsageError
from harness.reporting.positions import table_text
from harness.tuning.artefact import load_artefact

SUITE = """
data: stand-in
model: nano-opt
tasks: [e2e]
targets: [2]
limit: 8
methods: METHODS
training: {base_steps: 4, own_steps: 2, batch_size: 4, base_learning_rate: 1.0e-3, own_learning_rate: 1.0e-3,
  vocab_size: 400}
decoding: {batch_size: 8, max_prompt_tokens: 64, max_new_tokens: 8}
calibration_examples: 8
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """One folder of checkpoints and artefacts for this file."""
    folder = tmp_path_factory.mktemp("tuning")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SKIPBENCH_CHECKPOINTS", str(folder / "checkpoints"))
        yield folder


@pytest.fixture
def suite(tmp_path):
    """Writes a suite with the given methods."""

    def write(methods: str, **changes: str) -> str:
        text = SUITE.replace("METHODS", methods)
        for line in changes.values():
            text += line + "\n"
        (tmp_path / "ours.yaml").write_text(text)
        return str(tmp_path / "ours.yaml")

    return write


def runs(root) -> list[dict]:
    """What is recorded of each run but the floors."""
    configs = [json.loads(path.read_text()) for path in sorted(root.glob("runs/*/run.json"))]
    return [config for config in configs if config["method"]["name"] != "floor"]


def test_tuned_fractions_serve_a_suite_and_change_its_run_ids(folder, suite, tmp_path):
    path = tune("skipdecode", "e2e", [2], suite=suite("[full]"), out=folder / "tuned.json")
    artefact = load_artefact(path)
    (entry,) = artefact.entries
    assert set(entry["values"]) == {"min_layers", "max_layers"} and len(entry["found"]["finalists"]) == 3
    file = suite(f"[{{name: skipdecode, tuned: {path}}}]")
    root = run_suite(file, tmp_path / "one")
    (run,) = runs(root)
    counts = entry["found"]["counts"]
    assert {k: run["method"]["params"][k] for k in counts} == counts and run["method"]["target"] == 2
    assert run["method"]["params"]["prompt_size"] > 0  # P and M come from the training lengths
    tuned = run["method"]["tuned"]
    assert (tuned["kind"], tuned["task"], tuned["file"]) == ("tuned", "e2e", "tuned.json")
    assert tuned["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    path.write_text(path.read_text().replace('"seed": 0', '"seed": 1'))
    (other,) = runs(run_suite(file, tmp_path / "two"))
    assert other["run_id"] != run["run_id"] and other["checkpoint_key"] == run["checkpoint_key"]
    with pytest.raises(UsageError, match="has no entry for 3x; its targets: 2x"):
        run_suite(file, tmp_path / "three", target=3)
    with pytest.raises(UsageError, match="another number of layers: 4 there, 12 here"):
        run_suite(file, tmp_path / "three", model="mini-opt")
    with pytest.raises(UsageError, match="there is no artefact"):
        run_suite(suite("[{name: skipdecode, tuned: nowhere.json}]"), tmp_path / "three")


def test_a_threshold_for_a_target_is_what_the_run_itself_would_find(folder, suite, tmp_path):
    path = calibrate("calm:confidence=softmax", "e2e", [2], suite=suite("[full]"), out=folder / "calm.json")
    given = runs(run_suite(suite(f"[{{name: calm, tuned: {path}}}]"), tmp_path / "given"))[0]
    found = runs(run_suite(suite("[{name: calm, params: {confidence: softmax}}]"), tmp_path / "found"))[0]
    one, other = ({k: v for k, v in run["method"].items() if k not in ("given", "tuned")} for run in (given, found))
    assert one == other and given["run_id"] != found["run_id"]
    assert (given["method"]["given"], found["method"]["given"]) == ({}, {"confidence": "softmax"})
    assert given["method"]["tuned"]["target"] == 2 and "tuned" not in found["method"]
    with pytest.raises(UsageError, match="another confidence of calm: 'softmax' there, 'state' here"):
        run_suite(suite(f"[{{name: calm, tuned: {path}, params: {{confidence: state}}}}]"), tmp_path / "other")


def test_a_threshold_is_refused_on_other_weights(folder, suite, tmp_path):
    path = calibrate("calm", "e2e", [2], checkpoint="base", suite=suite("[full]"), out=folder / "base.json")
    with pytest.raises(Exception, match="another checkpoint's weights"):
        run_suite(suite(f"[{{name: calm, tuned: {path}}}]"), tmp_path)
    run_suite(suite(f"[{{name: calm, tuned: {path}}}]", checkpoints="checkpoints: [base]"), tmp_path / "base")


@pytest.mark.parametrize("guarantee", ["textual", "risk"])
def test_a_guarantee_needs_no_target(folder, suite, tmp_path, guarantee):
    common = {"suite": suite("[full]"), "out": folder / f"{guarantee}.json", "examples": 40, "guarantee": guarantee}
    path = calibrate("calm", "e2e", delta=0.2, **common)
    (entry,) = load_artefact(path).entries
    tested = entry["found"]["tested"]
    assert [t["value"] for t in tested] == sorted((t["value"] for t in tested), reverse=True) and tested[0][
        "value"
    ] == 1
    kept = [t["value"] for t in tested if t["p"] <= 0.05]
    assert entry["values"]["threshold"] == kept[-1] and entry["target"] is None
    (run,) = runs(run_suite(suite(f"[{{name: calm, tuned: {path}}}]"), tmp_path / "out"))
    assert run["method"]["target"] is None and run["method"]["params"]["threshold"] == kept[-1]
    promise = {k: run["method"]["tuned"][k] for k in ("kind", "task", "source", "guarantee", "delta", "epsilon")}
    assert promise == {
        "kind": "calibrated", "task": "e2e", "source": "stand-in", "guarantee": guarantee, "delta": 0.2, "epsilon": 0.05
    }  # fmt: skip


def test_without_a_threshold_that_passes_it_is_the_full_model(folder, suite, tmp_path):
    common = {"suite": suite("[full]"), "out": folder / "none.json", "examples": 4, "guarantee": "textual"}
    path = calibrate("calm", "e2e", delta=0.01, **common)  # four examples prove nothing
    frame = read_results(run_suite(suite(f"[{{name: calm, tuned: {path}}}]"), tmp_path / "out"))
    assert set(frame[(frame.metric == "speedup_layers") & (frame.method == "calm")].value) == {1.0}


def test_losses_of_the_two_consistencies():
    same, other = "one two three four", "one two five six"
    assert dissimilarity([same, other, ""], [same, same, ""], "en").tolist() == [0, 0.5, 0]
    assert lost([50, 20], [40, 30]).tolist() == [0.1, 0]


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tune("unified", "e2e", [2], suite="smoke"), "method 'unified' has nothing to tune"),
        (lambda: tune("nothing", "e2e", [2], suite="smoke"), "unknown method 'nothing'"),
        (lambda: tune("skipdecode", "e2e", [50], suite="smoke"), r"from 1 to the number of layers \(4\), not 50"),
        (lambda: calibrate("calm", "e2e", [50], suite="smoke"), r"from 1 to the number of layers \(4\), not 50"),
        (lambda: calibrate("unified", "e2e", [2], suite="smoke"), "no threshold to calibrate"),
        (lambda: calibrate("calm:threshold=0.3", "e2e", [2], suite="smoke"), "threshold is what calibration chooses"),
        (lambda: calibrate("calm", "e2e", guarantee="both", suite="smoke"), "unknown guarantee 'both'"),
        (lambda: calibrate("calm", "e2e", [2], guarantee="risk", suite="smoke"), "not both"),
        (
            lambda: calibrate("calm", "e2e", guarantee="risk", delta=1.0, suite="smoke"),
            "delta must lie between 0 and 1",
        ),
    ],
)
def test_bad_usage_is_one_clear_line(call, message):
    with pytest.raises(UsageError, match=message) as caught:
        call()
    assert "\n" not in str(caught.value)


def test_diagnosis_by_position(folder, suite, tmp_path):
    found, paths = diagnose("e2e", suite=suite("[full, calm, unified]"), out=tmp_path)
    table, png, svg = paths
    assert png.stat().st_size > 10_000 and svg.is_file()
    rows = list(csv.DictReader(table.open()))
    measures = {(row["measure"], row["method"]) for row in rows}
    assert measures == {(m, n) for m in ("loss", "accuracy") for n in ("full", "calm 2x", "unified 2x")} | {
        ("agreement", "full"), ("agreement", "calm")
    }  # fmt: skip
    last = [float(row["value"]) for row in rows if row["measure"] == "agreement" and row["layer"] == "4"]
    assert last == [100.0] * len(last) and len(last) == 2 * len(found.tokens)
    assert "loss (nats a token)" in table_text(found) and "calm layer 3" in table_text(found)


RAISES = """
from dataclasses import dataclass
from harness import EarlyExit, register_method

@register_method("raises_late")
@dataclass(frozen=True)
class RaisesLate(EarlyExit):
    def should_exit(self, layer, state):
        return state.hidden.no_such_thing
"""


def test_diagnose_names_the_method_that_raises(folder, suite, tmp_path):
    (tmp_path / "raises_late.py").write_text(RAISES)
    with forgotten_afterwards(), pytest.raises(SkipbenchError, match="raises_late.*AttributeError.*no_such_thing"):
        diagnose("e2e", suite=suite("[raises_late]"), plugin=tmp_path / "raises_late.py", out=tmp_path)
