"""results.csv and the tidy frame: exact columns, exact floats, the same bytes every time."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from results_fixtures import batches, metric, run_config

from harness.errors import SkipbenchError, UsageError
from harness.reporting import judge_claims
from harness.results import COLUMNS, Store, read_results, verify, write_results_csv
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


@pytest.mark.parametrize("name", ["runs/a/run.json", "runs/a/scores.json", "timing/group.json"])
def test_a_foreign_document_is_named(folder, name):
    path = next((folder / "timing").iterdir()) if name.startswith("timing") else folder / name
    path.write_text("{}")
    for read in (read_results, judge_claims):
        with pytest.raises(SkipbenchError, match=r"is not what skipbench writes: it has no '\w+'"):
            read(folder)


def test_a_foreign_table_is_named(tmp_path):
    (tmp_path / "results.csv").write_text("name,score\na,1\n")
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
