"""results.csv and the tidy frame: exact columns, exact floats, the same bytes every time."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from results_fixtures import batches, metric, run_config

from harness.errors import SkipbenchError, UsageError
from harness.reporting import build_report, judge_claims, overview
from harness.results import COLUMNS, Store, load_failures, load_runs, read_results, verify, write_results_csv
from harness.results.encoding import dumps, seal

HEADER = (
    "suite,run_id,task,split,source,n,model,params,num_layers,checkpoint,method,variant,target_speedup,batch_size,"
    "dtype,device,threads,attention,decoding,seed,metric,value,ci_low,ci_high"
)


def skipdecode(target: float) -> dict:
    return {"name": "skipdecode", "variant": "min_layers=3, max_layers=9", "params": {}, "target": target}


@pytest.fixture
def folder(tmp_path) -> Path:
    """Two finished runs, one unfinished, one timing group."""
    with Store(tmp_path) as store:
        for run_id, method, value in (("b", skipdecode(2), 1 / 3), ("a", run_config()["method"], None)):
            run = store.open_run(run_id, run_config(n=2, method=method))
            run.append(batches(2, 2)[0])
            run.finish({"e2e_bleu": metric(value, 0.1), "loss": metric(float("nan"), note="not measured")})
        store.open_run("unfinished", run_config())
        timed = {"method": skipdecode(2), "checkpoint": "own", "run_id": "b"}
        timed["values"] = {"speedup_wall": metric(1.875, 0.125), "kv_bytes_peak": 4096}
        group = {key: run_config()[key] for key in ("suite", "task", "source", "model", "dtype", "device", "threads")}
        store.write_timing("g", {**group, "batch_size": 1, "seed": 0, "methods": [timed]})
        store.write_suite("quick", "h", ["a", "b", "g"])
    return tmp_path


def test_columns_are_the_documented_ones():
    assert ",".join(COLUMNS) == HEADER


def test_csv_is_sorted_exact_and_stable(folder):
    path = write_results_csv(folder)
    lines = path.read_text().splitlines()
    assert lines[0] == HEADER and len(lines) == 1 + 2 + 4
    assert "e2e_bleu,0.3333333333333333,0.2333333333333333," in next(x for x in lines if "0.333" in x)
    before = path.stat().st_mtime_ns
    assert write_results_csv(folder).stat().st_mtime_ns == before
    bytes_before = path.read_bytes()
    path.unlink()
    assert write_results_csv(folder).read_bytes() == bytes_before


def test_frame_has_proper_types_and_equals_the_csv(folder, tmp_path_factory):
    frame = read_results(folder)
    assert list(frame.columns) == list(COLUMNS)
    assert {str(frame[c].dtype) for c in ("n", "params", "batch_size", "seed", "threads")} == {"Int64"}
    assert {str(frame[c].dtype) for c in ("target_speedup", "value", "ci_low", "ci_high")} == {"float64"}
    row = frame[(frame.run_id == "b") & (frame.metric == "e2e_bleu")].iloc[0]
    assert (row.value, row.variant, row.target_speedup) == (1 / 3, "min_layers=3, max_layers=9", 2.0)
    full = frame[frame.run_id == "a"]
    assert full.value.isna().all() and full.target_speedup.isna().all() and (full.variant == "").all()
    alone = tmp_path_factory.mktemp("alone")
    (alone / "results.csv").write_bytes(write_results_csv(folder).read_bytes())
    pd.testing.assert_frame_equal(read_results(alone), frame)


def test_timing_rows_carry_the_quality_run_and_the_groups_setting(folder):
    row = read_results(folder).query("metric == 'speedup_wall'").iloc[0]
    assert (row.run_id, row.batch_size, row.split, row.n) == ("b", 1, "test", 2)
    assert (row.value, row.ci_low, row.ci_high) == (1.875, 1.75, 2.0)


def test_what_was_timed_anew_counts_once(folder):
    """The same runs under the same conditions, timed again with another number of rounds."""
    old = next((folder / "timing").glob("*.json"))
    group = json.loads(old.read_text())
    kept = {**group["methods"][0], "run_id": "a"}  # not in the new group
    old.write_text(json.dumps(seal({**group, "methods": [*group["methods"], kept]})))
    new = {key: value for key, value in group.items() if key not in ("schema", "group_id", "sha256")}
    new["methods"][0]["values"]["speedup_wall"] = metric(1.5, 0.1)
    with Store(folder) as store:
        store.write_timing("anew", new)
        store.write_suite("s", "h", ["a", "b", "anew"])
    frame = read_results(folder)
    wall = frame[frame.metric == "speedup_wall"].set_index("run_id").value.to_dict()
    assert wall == {"a": 1.875, "b": 1.5}


@pytest.mark.parametrize("name", ["runs/a/scores.json", "runs/a/run.json", "timing/g.json"])
def test_a_corrupt_file_is_named(folder, name):
    (folder / name).write_text("{")
    with pytest.raises(SkipbenchError, match=name):
        read_results(folder)


def test_a_folder_without_results_is_the_callers_mistake(tmp_path):
    for read in (read_results, verify):
        with pytest.raises(UsageError, match="holds no results"):
            read(tmp_path)


DOCUMENTS = ("runs/a/run.json", "runs/a/scores.json", "timing/g.json", "suite.json")


def reseal(path: Path, **changes) -> None:
    """Change a document and seal it again, as if it had been written so."""
    path.write_text(json.dumps(seal({**json.loads(path.read_text()), **changes})))


def refused(folder: Path, *said: str) -> None:
    """Every reader refuses the folder with a message for people, and verify finds the fault too."""
    for read in (read_results, judge_claims, overview, build_report):
        with pytest.raises(SkipbenchError) as error:
            read(folder)
        assert all(text in str(error.value) for text in said) and "--fresh" in str(error.value)
    assert said[-1] in problems(folder)


@pytest.mark.parametrize(("name", "schema"), [(name, schema) for name in DOCUMENTS[:3] for schema in (2, "1", None)])
def test_a_document_of_another_version_is_refused(folder, name, schema):
    reseal(folder / name, schema=schema)
    refused(folder, name, f"it has schema {schema!r}")


@pytest.mark.parametrize(
    ("name", "changes", "said"),
    [
        ("runs/a/scores.json", {"values": {"e2e_bleu": metric(99.0)}}, "it was altered"),
        ("runs/a/scores.json", {"n": 3}, "it was altered"),
        ("runs/a/run.json", {"source": "local"}, "it is not the file that was scored"),
        ("timing/g.json", {"threads": 64}, "it was altered"),
        ("suite.json", {"jobs": ["a"]}, "it was altered"),
    ],
)
def test_an_altered_document_is_refused(folder, name, changes, said):
    edit_json(folder / name, **changes)
    refused(folder, name, said)


@pytest.mark.parametrize("name", DOCUMENTS[1:])
def test_a_document_without_its_seal_is_refused(folder, name):
    document = json.loads((folder / name).read_text())
    del document["sha256"]
    (folder / name).write_text(json.dumps(document))
    refused(folder, name, "it has no 'sha256'")


def test_a_copied_run_or_timing_is_refused(folder):
    shutil.copytree(folder / "runs/a", folder / "runs/c")
    refused(folder, "runs/c/run.json", "it belongs to 'a'")
    shutil.rmtree(folder / "runs/c")
    shutil.copy(folder / "timing/g.json", folder / "timing/h.json")
    refused(folder, "timing/h.json", "it belongs to 'g'")


ENTRY = {"method": {"name": "full"}, "values": {}}


@pytest.mark.parametrize(
    ("name", "changes", "said"),
    [
        ("runs/a/scores.json", {"values": {"e2e_bleu": {"value": "abc"}}}, "values.e2e_bleu.value is 'abc'"),
        ("runs/a/scores.json", {"values": {"e2e_bleu": "abc"}}, "values.e2e_bleu.value is 'abc'"),
        ("runs/a/scores.json", {"values": {"e2e_bleu": {"value": 1, "low": True}}}, "values.e2e_bleu.low is True"),
        ("runs/a/scores.json", {"values": {"e2e_bleu": {}}}, "it has no 'values.e2e_bleu.value'"),
        ("runs/a/scores.json", {"values": {"e2e_bleu": 10**400}}, "values.e2e_bleu.value is 1000"),
        ("runs/a/scores.json", {"values": [1]}, "its values is [1]"),
        ("runs/a/scores.json", {"per_example": [1]}, "its per_example is [1]"),
        ("runs/a/scores.json", {"loss_by_position": {}}, "its loss_by_position is {}"),
        ("runs/a/run.json", {"model": "x"}, "its model is 'x'"),
        ("runs/a/run.json", {"method": "x"}, "its method is 'x'"),
        ("runs/a/run.json", {"method": {"name": "full", "target": "2"}}, "its method.target is '2'"),
        ("runs/a/run.json", {"plan": {"prompt": 1, "steps": []}}, "its plan.prompt is 1"),
        ("runs/a/run.json", {"n": "2"}, "its n is '2'"),
        ("runs/a/run.json", {"seed": "x"}, "its seed is 'x'"),
        ("timing/g.json", {"methods": None}, "its methods is None"),
        ("timing/g.json", {"methods": [{"method": {"name": "full"}}]}, "it has no 'methods.0.values'"),
        ("timing/g.json", {"methods": [{**ENTRY, "kv_bytes_by_step": 5}]}, "its methods.0.kv_bytes_by_step is 5"),
        ("timing/g.json", {"model": None}, "its model is None"),
        ("suite.json", {"jobs": 3}, "its jobs is 3"),
        ("suite.json", {"suite": None}, "its suite is None"),
    ],
)
def test_a_field_of_another_type_is_named(folder, name, changes, said):
    reseal(folder / name, **changes)
    refused(folder, name, said)


@pytest.mark.parametrize("name", DOCUMENTS)
@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, "[]", "\udcff", ""])
def test_what_is_no_document_is_refused(folder, name, text):
    (folder / name).write_bytes(text.encode("utf-8", "surrogateescape"))
    refused(folder, name, "cannot read")


def test_nesting_that_can_be_read_but_not_sealed_is_refused(folder):
    """Somewhere below the depth at which JSON cannot be read any more."""
    for depth in (300, 900, 960, 990):
        path = folder / "runs/a/scores.json"
        document = {**json.loads((folder / "runs/b/scores.json").read_text()), "run_id": "a"}
        path.write_text(json.dumps(document)[:-1] + ', "deep": ' + "[" * depth + "]" * depth + "}")
        refused(folder, "runs/a/scores.json", "")


def test_altered_records_are_not_read(folder):
    path = folder / "runs/a/records.jsonl"
    whole = path.read_bytes()
    for data in (whole.replace(b"plain", b"fancy"), whole + whole, b""):
        path.write_bytes(data)
        with pytest.raises(SkipbenchError, match=r"runs/a/records\.jsonl is not .*: it is not the file that was sco"):
            load_runs(folder)[0].records()
    path.write_bytes(whole)
    assert len(load_runs(folder)[0].records()) == 2


def test_a_report_names_records_that_lost_their_fields(folder):
    (folder / "runs/a/records.jsonl").write_text('{"id":"x","batch":0,"batch_rows":1}\n')
    with pytest.raises(SkipbenchError, match=r"runs/a/records\.jsonl is not what skipbench writes"):
        build_report(folder)


@pytest.mark.parametrize("text", ["[]", '{"job": {}}', '{"error": 3}', "{"])
def test_a_broken_failure_is_named(folder, text):
    (folder / "failures").mkdir()
    (folder / "failures/x.json").write_text(text)
    with pytest.raises(SkipbenchError, match=r"failures/x\.json"):
        load_failures(folder)
    assert "failures/x.json" in problems(folder)


@pytest.mark.parametrize("name", ["runs/a/run.json", "runs/a/scores.json", "timing/group.json"])
def test_a_foreign_document_is_named(folder, name):
    path = next((folder / "timing").iterdir()) if name.startswith("timing") else folder / name
    path.write_text("{}")
    for read in (read_results, judge_claims):
        with pytest.raises(SkipbenchError, match=r"is not what skipbench writes: it has no '\w+'"):
            read(folder)


ROW = ",".join(["s", "r", *[""] * 17, "0", "loss", "1.5", "", ""]) + "\n"


def test_a_table_alone_is_read(tmp_path):
    (tmp_path / "results.csv").write_text(HEADER + "\n" + ROW)
    row = read_results(tmp_path).iloc[0]
    assert (row.run_id, row.seed, row.metric, row.value) == ("r", 0, "loss", 1.5)


@pytest.mark.parametrize(
    "data",
    [
        b"name,score\na,1\n",
        b"",
        HEADER.encode("utf-16"),
        (HEADER + "\n" + ROW.replace("1.5", "much")).encode(),
        (HEADER + "\n" + ROW.replace(",0,", ",0.5,")).encode(),
    ],
)
def test_a_foreign_table_is_named(tmp_path, data):
    (tmp_path / "results.csv").write_bytes(data)
    with pytest.raises(SkipbenchError, match=r"results\.csv is not what skipbench writes"):
        read_results(tmp_path)


def test_claims_of_no_results_are_the_callers_mistake(tmp_path):
    for folder in (tmp_path, tmp_path / "nowhere", Path(__file__)):
        with pytest.raises(UsageError, match="holds no results"):
            judge_claims(folder)


def test_reading_imports_no_torch():
    code = "import sys, harness.results; sys.exit('torch' in sys.modules or 'pandas' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


# --- verify -----------------------------------------------------------------------------------------------------------


def problems(folder: Path) -> str:
    verdict = verify(folder)
    assert verdict.ok == (not verdict.problems)
    return " | ".join(verdict.problems)


def drop_unfinished(folder: Path) -> None:
    with Store(folder) as store:
        store.forget("unfinished")


def test_verify_passes_a_whole_folder(folder):
    assert "runs/unfinished: it is not finished" in problems(folder)
    drop_unfinished(folder)
    write_results_csv(folder)
    assert problems(folder) == ""


def edit_json(path: Path, **changes) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def edit_records(path: Path, change) -> None:
    path.write_bytes(b"".join(change(path.read_bytes().splitlines(keepends=True))))


def edit_first_record(folder: Path, **changes) -> None:
    """Change a record and seal it again, as if it had been written so."""

    def change(lines: list[bytes]) -> list[bytes]:
        return [(dumps(seal({**json.loads(lines[0]), **changes})) + "\n").encode(), *lines[1:]]

    edit_records(folder / "runs/a/records.jsonl", change)


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (lambda d: edit_records(d / "runs/a/records.jsonl", lambda x: x[:1]), "1 of 2 examples are recorded"),
        (lambda d: edit_records(d / "runs/a/records.jsonl", lambda x: [*x, x[0]]), "'x0' (line 3) is there twice"),
        (
            lambda d: edit_records(d / "runs/a/records.jsonl", lambda x: [x[0].replace(b"plain", b"fancy"), x[1]]),
            "record 'x0' (line 1) was altered | runs/a: records.jsonl: it is not the file that was scored",
        ),
        (lambda d: edit_records(d / "runs/a/records.jsonl", lambda x: [*x, b'{"id']), "the last record is torn"),
        (lambda d: edit_json(d / "runs/a/scores.json", values={}), "scores.json: it was altered"),
        (lambda d: edit_json(d / "runs/a/run.json", threads=64), "run.json: it is not the file that was scored"),
        (lambda d: edit_json(d / "timing/g.json", threads=64), "timing/g.json: it was altered"),
        (lambda d: (d / "timing/g.json").write_text("nonsense"), "cannot read"),
        (lambda d: (d / "timing/g.json").unlink(), "job g of suite quick has not run"),
        (lambda d: (d / "results.csv").write_text(HEADER + "\n"), "results.csv does not follow from the runs"),
        (lambda d: (d / "results.csv").unlink(), "results.csv is missing"),
        (lambda d: edit_json(d / "suite.json", jobs=["a"]), "suite.json: it was altered"),
        (lambda d: (d / "suite.json").unlink(), "suite.json is missing"),
        (lambda d: (d / "suite.json").write_text('{"suite": "q", "hash": "h", "jobs": ["a"]}'), "it has no 'sha256'"),
        (lambda d: (d / "suite.json").write_text('{"hash": "h", "jobs": ["z"]}'), "it has no 'suite'"),
        (lambda d: edit_first_record(d, id=["x0"]), "line 1: it is no record"),
        (lambda d: edit_first_record(d, batch_rows=0), "line 1: it is no record"),
        (lambda d: edit_first_record(d, output="better"), "records.jsonl: it is not the file that was scored"),
        (lambda d: edit_records(d / "runs/a/records.jsonl", lambda x: x[::-1]), "is not the file that was scored"),
    ],
)
def test_verify_finds_what_is_missing_double_or_altered(folder, damage, said):
    drop_unfinished(folder)
    write_results_csv(folder)
    damage(folder)
    assert said in problems(folder)


def test_verify_finds_any_single_byte_that_changed(folder):
    drop_unfinished(folder)
    write_results_csv(folder)
    paths = [p for p in folder.rglob("*") if p.suffix in (".json", ".jsonl", ".csv")]
    assert len(paths) >= 6
    chance = random.Random(0)
    for _ in range(200):
        path = chance.choice(paths)
        data = path.read_bytes()
        place = chance.randrange(len(data))
        other = chance.choice([b for b in b'09aZ"{}[],:.- \n' if b != data[place]])
        path.write_bytes(data[:place] + bytes([other]) + data[place + 1 :])
        try:
            found = problems(folder)
        except SkipbenchError as error:
            found = str(error)
        same = path.suffix == ".json" and loads_or_none(path) == json.loads(data)  # white space between values
        assert found or same, (path, place, chr(data[place]), chr(other))
        path.write_bytes(data)


def loads_or_none(path: Path) -> object:
    try:
        return json.loads(path.read_bytes())
    except ValueError:
        return None


def test_verify_names_failed_jobs(folder):
    with Store(folder) as store:
        store.fail("later", {}, "RuntimeError: no")
    assert "job later failed: RuntimeError: no" in problems(folder)
