"""SPEED's table, picture and claims: one model against itself, and depths of the same weights beside each other."""

from __future__ import annotations

import numpy as np
import pytest
from reporting_fixtures import TASKS, N, add_floor
from results_fixtures import metric, record, run_config

from harness.reporting import build_report
from harness.reporting.claims.claims import judge_panels
from harness.reporting.panels import panels
from harness.reporting.points import load_points
from harness.results import Store, write_results_csv

TASK = "translation:de-en"
MS = {1: 4.0, 2: 8.0, 3: 12.0, 4: 16.0}  # sequential milliseconds a token by cycles; pipelined: a quarter more each


def _config(run_id: str, method: str, cycles: int | None, layers: int):
    source, metrics, _ = TASKS[TASK]
    model = {"name": f"looped-{cycles}" if cycles else "mini", "family": "opt", "num_layers": layers, "params": 10**6}
    model |= {"num_cycles": cycles} if cycles else {}
    facts = {"name": method, "variant": "", "params": {}, "target": None}
    return run_config(run_id, N, task=TASK, source=source, metrics=metrics, batch_size=8, model=model, method=facts)


def _add(store: Store, method: str, cycles: int | None, layers: int, ms: float) -> dict:
    run_id = f"{method}-{cycles}-{layers}"
    rng = np.random.default_rng(layers)
    rows = [record(i, i // 8, "text", 9) for i in range(N)]
    for row in rows:
        row |= {"layers_needed": [layers] * 9, "layers_run": [4] * 15, "tokens": list(range(10)), "length": 10}
        row |= {"guesses": 8, "accepted": 5} if method == "speed" else {}
    run = store.open_run(run_id, _config(run_id, method, cycles, layers))
    for first in range(0, N, 8):
        run.append(rows[first : first + 8])
    quality = 20 + layers
    guessing = {"acceptance_rate": metric(0.625, 0.01), "passes_per_token": metric(15 / 9, 0.02)}
    guessing |= {"weight_reads_per_token": metric(1.5e6, 1e4)}
    counted = {"speedup_layers": metric(1.0), "speedup_layers_batch": metric(1.0)}
    values = {"bleu": metric(quality, 1.0), **(guessing if method == "speed" else counted)}
    run.finish(values, per_example={"bleu": rng.normal(quality, 3, N)})
    timed = {"decode_ms_per_token": metric(ms, 0.1), "speedup_wall": metric(MS[cycles or 3] / ms, 0.02)}
    facts = {"method": {"name": method, "variant": "", "params": {}, "target": None}, "checkpoint": "own"}
    return {**facts, "run_id": run_id, "raw": {}, "values": timed}


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    root = tmp_path_factory.mktemp("speed")
    with Store(root) as store:
        add_floor(store, TASK)
        for cycles in (1, 2, 3, 4, None):
            layers = 4 * (cycles or 3)
            entries = [_add(store, "full", cycles, layers, MS[cycles or 3])]
            if cycles in (2, 3, 4):
                entries.append(_add(store, "speed", cycles, layers, 4.0 + 0.5 * cycles))
            for size in (1, 8):
                group = {k: run_config()[k] for k in ("suite", "dtype", "device", "threads", "attention", "decoding")}
                group |= {"task": TASK, "source": TASKS[TASK][0], "model": {"name": f"m{cycles}"}, "seed": 0}
                group |= {"batch_size": size, "new_tokens": 24, "repeats": 5, "methods": entries}
                store.write_timing(f"c{cycles}-b{size}", group)
    write_results_csv(root)
    build_report(root)
    return root


def test_the_table_has_every_depth_sequential_and_pipelined_and_the_unshared_decoder(root):
    lines = (root / "tables" / "speed-main.csv").read_text().splitlines()
    rows = [line.split(",") for line in lines]
    heads = rows[0]
    seen = [(r[heads.index("depth")], r[heads.index("cycles")], r[heads.index("method")]) for r in rows[1:]]
    assert seen == [
        ("4", "1", "full"),
        *[("8", "2", "full"), ("8", "2", "speed")],
        *[("12", "3", "full"), ("12", "3", "speed"), ("12", "\u2013", "full")],
        *[("16", "4", "full"), ("16", "4", "speed")],
    ]
    text = (root / "tables" / "speed-main.md").read_text()
    for heading in ("ms/token, batch 1", "wall-clock speed-up, batch 8", "guesses accepted", "passes a token"):
        assert heading in text


def test_layers_are_not_plotted_where_they_say_nothing(root):
    names = {path.name for path in (root / "plots").glob("*.svg")}
    assert sum(name.startswith("depth_") for name in names) == 1
    assert not [name for name in names if name.endswith(("_exits.svg", "_plans.svg", "quality_layers.svg"))]
    page = (root / "report.html").read_text()
    assert "Looped decoders by depth" in page and page.count("Quality and latency by depth") == 1


def test_claims_are_about_one_decoder_and_about_one_cycle(root):
    found = [j for j in judge_panels(panels(load_points(root))) if j.claim.left == "speed"]
    latency = {j.panel.config["model"]["num_cycles"]: j for j in found if j.claim.id == "speed-latency"}
    assert {c: j.verdict.verdict for c, j in latency.items()} == dict.fromkeys((2, 3, 4), "supported")
    assert latency[2].evidence.estimate == pytest.approx(1 - 5.0 / 8.0)
    depth = {j.panel.config["model"]["num_cycles"]: j for j in found if j.claim.id == "speed-depth"}
    assert depth[4].evidence.estimate == pytest.approx(1 - 6.0 / 4.0)
    assert [depth[c].verdict.verdict for c in (2, 3, 4)] == ["supported", "supported", "not decided"]


def test_without_a_decoder_of_one_cycle_depth_is_not_judged(root):
    points = [p for p in load_points(root) if p.config.get("model") is None or p.config["model"]["name"] != "looped-1"]
    found = [j for j in judge_panels(panels(points)) if j.claim.id == "speed-depth"]
    assert len(found) == 3 and all("no full with one cycle of 4 layers" in j.verdict.reason for j in found)
