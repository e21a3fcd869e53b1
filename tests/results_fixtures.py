"""A made-up results folder, written through the store: every method, two tasks, no model and no data set."""

from __future__ import annotations

LAYERS = 12


def run_config(run_id: str = "r", n: int = 6, **changes) -> dict:
    """A plausible run.json without schema and run_id."""
    config = {
        "suite": "quick", "task": "e2e", "split": "test", "source": "stand-in", "data_hash": "d" * 64, "n": n,
        "limit": None,
        "model": {"name": "mini-opt", "family": "opt", "num_layers": LAYERS, "params": 2_700_000, "weights": "a" * 64},
        "checkpoint": "own", "checkpoint_key": f"key-{run_id}",
        "method": {"name": "full", "variant": "", "params": {}, "target": None},
        "plan": None, "batch_size": 4, "dtype": "float32", "device": "cpu", "threads": 2, "attention": "sdpa",
        "decoding": "greedy", "seed": 0, "metrics": ["e2e_bleu", "rougeL"], "language": "en",
        "max_prompt_tokens": 160, "max_new_tokens": 24, "prompt_template": "{mr} =>",
        "training": {"recipe": "plan", "steps": 400, "tokens": 1_000_000}, "environment": {"python": "3.12"},
    }  # fmt: skip
    return {**config, **changes}


def record(index: int, batch: int, output: str = "a plain sentence .", steps: int = 8, layers: int = LAYERS) -> dict:
    """One example as the runner records it."""
    return {
        "id": f"x{index}", "batch": batch, "prompt_hash": f"{index:064x}", "prompt_tokens": 20 + index % 5,
        "truncated": False, "output": output, "tokens": list(range(5, 5 + steps + 1)), "length": steps + 1,
        "ended": True, "layers_needed": [layers] * steps, "layers_run": [layers] * steps, "head_checks": 0,
    }  # fmt: skip


def batches(n: int, size: int, **fields) -> list[list[dict]]:
    """`n` records in batches of `size`."""
    return [
        [record(i, first // size, **fields) for i in range(first, min(first + size, n))] for first in range(0, n, size)
    ]


def metric(value: float | None, spread: float = 0.0, note: str | None = None) -> dict:
    """A scored value with a symmetric interval."""
    bounds = (None, None) if value is None or not spread else (value - spread, value + spread)
    return {"value": value, "low": bounds[0], "high": bounds[1], "note": note}
