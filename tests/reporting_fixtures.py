"""A made-up results folder as a suite leaves it: every method, two tasks, timings at four batch sizes; no model."""

from __future__ import annotations

import atexit
import math
import shutil
import tempfile
from functools import cache
from pathlib import Path

import numpy as np
from results_fixtures import LAYERS, batches, metric, record, run_config

from harness.reporting import build_report
from harness.results import Store, write_results_csv

N, STEPS = 48, 24
QUALITY = {"skipdecode": 0.96, "unified": 0.98, "calm": 0.9, "multi_layer": 0.82, "random_skip": 0.55}
TASKS = {"e2e": ("stand-in", ["e2e_bleu", "rougeL"], 66.0), "translation:de-en": ("local", ["bleu", "chrf"], 31.0)}
TARGETS = (2, 4, 6)
OWN = "document.title='owned'"
EVIL = f"</script><script>{OWN}</script><img src=x onerror=\"{OWN}\"> \x00\u2028 \ud800 'q'"


def plan(method: str, target: float) -> dict | None:
    """Layers by step; None for the early exit."""
    keep = round(LAYERS / target)
    if method == "calm":
        return None
    if method == "full":
        steps = [list(range(LAYERS))] * STEPS
    elif method == "skipdecode":
        budgets = np.linspace(min(2 * keep - 1, LAYERS), 1, STEPS).round().astype(int)
        steps = [[0, *range(LAYERS - b + 1, LAYERS)] for b in budgets.tolist()]
    elif method == "multi_layer":
        steps = [list(range(keep))] * STEPS
    else:
        steps = [sorted({int(i * (LAYERS - 1) / max(keep - 1, 1)) for i in range(keep)})] * STEPS
    return {"prompt": list(range(LAYERS)), "steps": steps}


def records(method: str, target: float, rng: np.random.Generator) -> list[dict]:
    """Examples of different lengths, with the layers each step needed."""
    rows = []
    schedule = plan(method, target)
    for i in range(N):
        steps = int(rng.integers(8, STEPS + 1))
        if schedule:
            needed = [len(layers) for layers in schedule["steps"][:steps]]
        else:
            mean = LAYERS / target
            needed = np.clip(rng.normal(mean, mean / 3, steps).round(), 1, LAYERS).astype(int).tolist()
        text = f'{method} <b>says</b> & "{i}" | 🍕'
        rows.append({**record(i, i // 8, text, steps), "layers_needed": needed, "layers_run": needed})
        rows[-1]["tokens"] = list(range(steps + 1))
        rows[-1]["length"] = steps + 1
    return rows


def quality_of(method: str, target: float, top: float) -> float:
    return top if method == "full" else top * QUALITY[method] ** (target - 1)


def add_run(
    store: Store, task: str, method: str, target: float | None, seed: int = 0, threshold: float = 0.9, **changes
) -> str:
    """One finished quality run; returns its id, which names all but calm's threshold where that is the usual one."""
    source, metrics, top = TASKS[task]
    usual = "" if threshold == 0.9 else f"-{threshold}"
    run_id = f"{task}-{method}-{target}-{seed}{usual}".replace(":", "-")
    rng = np.random.default_rng([seed, *run_id.encode()])
    rows = records(method, target or 1, rng)
    main = quality_of(method, target or 1, top)
    layers = LAYERS * sum(len(r["layers_needed"]) for r in rows) / sum(sum(r["layers_needed"]) for r in rows)
    params = {"confidence": "state", "threshold": threshold, "tau": 0.0} if method == "calm" else {}
    config = run_config(
        run_id, N, task=task, source=source, metrics=metrics, seed=seed, batch_size=8, plan=plan(method, target or 1),
        method={"name": method, "variant": "", "params": params, "target": target}, **changes,
    )  # fmt: skip
    run = store.open_run(run_id, config)
    for first in range(0, N, 8):
        run.append(rows[first : first + 8])
    sample = rng.normal(main, 12, N)
    values = {
        metrics[0]: metric(main, 1.8), metrics[1]: metric(main * 0.9, 1.2), "speedup_layers": metric(layers, 0.02),
        "speedup_layers_batch": metric(1 + (layers - 1) * (0.5 if method == "calm" else 1)),
        "speedup_layers_std": metric(0.3 if method == "calm" else 0.02), "token_accuracy": metric(main + 10),
        "loss": metric(2.0 - main / 100), "output_tokens": metric(17.0, 0.5), "truncated_prompts": metric(0),
        "meteor": metric(None, note="unavailable: no hub"),
    }  # fmt: skip
    loss = [2.5 * math.exp(-i / 9) + 0.4 * (target or 1) ** 0.5 for i in range(STEPS)]
    by_position = {"loss_by_position": loss, "tokens_by_position": [N - i for i in range(STEPS)]}
    run.finish(values, per_example={metrics[0]: sample - sample.mean() + main}, **by_position)
    return run_id


def kv_by_step(target: float, batch_size: int) -> list[float]:
    """Bytes that grow with every step, less steeply where layers are skipped."""
    return [batch_size * (100_000 + 12_000 * step / target) for step in range(STEPS)]


def add_timing(store: Store, task: str, batch_size: int, jobs: list[tuple[str, float | None]]) -> None:
    """All methods at one batch size."""
    entries = []
    for method, target in jobs:
        ideal = target or 1
        fading = 1 / batch_size**0.35 if method == "calm" else 1.0
        batch_layers = 1 + (ideal - 1) * fading
        wall = 1 + (batch_layers - 1) * 0.86
        values = {
            "speedup_wall": metric(wall, 0.04 * wall), "tokens_per_s": metric(90 * batch_size**0.8 * wall, 3.0),
            "throughput_with_prompt": metric(150 * batch_size**0.8 * wall, 5.0), "speedup_layers": metric(ideal),
            "decode_ms_per_token": metric(11 / wall, 0.2), "prefill_ms": metric(12.0),
            "overhead_ms": metric(0.4 / ideal), "speedup_layers_batch": metric(batch_layers),
            "speedup_bound": metric(wall * 1.06),
            "speedup_total": metric(wall * 0.93), "kv_bytes_peak": metric(400_000 * batch_size / (ideal**0.5)),
            "kv_bytes_mean": metric(250_000 * batch_size / (ideal**0.5)),
        }  # fmt: skip
        run_id = f"{task}-{method}-{target}-0".replace(":", "-")
        facts = {"method": {"name": method, "variant": "", "params": {}, "target": target}, "checkpoint": "own"}
        facts |= {"run_id": run_id, "raw": {}, "kv_bytes_by_step": kv_by_step(ideal, batch_size)}
        entries.append({**facts, "values": values})
    setting = {k: run_config()[k] for k in ("suite", "dtype", "device", "threads", "attention", "decoding", "model")}
    group = {
        **setting,
        "task": task,
        "source": TASKS[task][0],
        "batch_size": batch_size,
        "seed": 0,
        "new_tokens": STEPS,
    }
    store.write_timing(f"{task}-b{batch_size}".replace(":", "-"), {**group, "repeats": 5, "methods": entries})


def add_floor(store: Store, task: str, share: float = 0.3) -> None:
    """A trivial output's row; `share` of the top quality."""
    source, metrics, top = TASKS[task]
    run_id = f"{task}-floor".replace(":", "-")
    method = {"name": "floor", "variant": "most frequent reference", "params": {}, "target": None}
    config = run_config(
        run_id, N, task=task, source=source, metrics=metrics, method=method, model=None, checkpoint=None
    )
    run = store.open_run(run_id, config)
    for first in range(0, N, 8):
        run.append([record(i, first // 8) for i in range(first, first + 8)])
    run.finish({metrics[0]: metric(top * share, 1.0)})


def fake_results(root: Path, tasks=tuple(TASKS), batch_sizes=(1, 2, 8, 32)) -> Path:
    """The whole folder."""
    jobs = [("full", None), *((m, t) for m in QUALITY for t in TARGETS)]
    with Store(root) as store:
        for task in tasks:
            for method, target in jobs:
                for seed in range(3) if method == "random_skip" else (0,):
                    add_run(store, task, method, target, seed)
            add_floor(store, task)
            for size in batch_sizes:
                add_timing(store, task, size, jobs)
    write_results_csv(root)
    return root


def add_mischief(root: Path) -> None:
    """A run whose texts would take over a page, one that is not finished, and a job that failed."""
    with Store(root) as store:
        evil = {"name": "evil", "variant": EVIL, "params": {}, "target": 2}
        run = store.open_run("evil", run_config("evil", N, method=evil, batch_size=8, prompt_template=EVIL))
        rows = batches(N, N, output=EVIL)[0]
        rows[0] |= {"output": "x" * 100_000}
        rows[N // 4] |= {"pieces": ["<b>", "&", "ok"]}
        run.append(rows)
        run.finish({"e2e_bleu": metric(1.0, 0.5), "speedup_layers": metric(2.0)})
        store.open_run("half", run_config("half"))
        store.fail("broken", {}, f"RuntimeError: {EVIL}")


@cache
def shared_report() -> Path:
    """One folder with everything in it and its report, made once a test session; only to be read."""
    root = Path(tempfile.mkdtemp(prefix="skipbench-report-"))
    atexit.register(shutil.rmtree, root, ignore_errors=True)
    add_mischief(fake_results(root, batch_sizes=(1, 8)))
    build_report(root)
    return root
