"""results.csv: a row a (run, metric), always the same bytes for the same runs."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ..errors import SkipbenchError
from .encoding import plain
from .files import replace_if_changed
from .reading import check_folder, load_runs, load_timings

if TYPE_CHECKING:
    import pandas as pd

COLUMNS = (
    *("suite", "run_id", "task", "split", "source", "n", "model", "params", "num_layers", "checkpoint"),
    *("method", "variant", "target_speedup", "batch_size", "dtype", "device", "threads", "attention", "decoding"),
    *("seed", "metric", "value", "ci_low", "ci_high"),
)
INTEGERS = ("n", "params", "num_layers", "batch_size", "threads", "seed")
FLOATS = ("target_speedup", "value", "ci_low", "ci_high")
TIMED = "_timed"  # on the timed examples and forced lengths, not on the test set
FROM_CONFIG = ("suite", "task", "split", "source", "n", "checkpoint")
FROM_SETTING = ("batch_size", "dtype", "device", "threads", "attention", "decoding", "seed")
SORT = ("suite", "task", "model", "method", "target_speedup", "run_id", "batch_size", "dtype", "seed", "metric")


def read_results(root: str | Path) -> pd.DataFrame:
    """The tidy pandas frame of a results folder: the columns of results.csv, with proper types.

    Built from the runs and timing files if they are there, else from results.csv. Missing numbers are NA; n, params,
    num_layers, batch_size, threads and seed are Int64, texts are strings. Raises UsageError if the folder holds no
    results and SkipbenchError naming a file that cannot be read or was altered.
    """
    root = check_folder(root)
    if (root / "runs").exists() or (root / "timing").exists():
        return _frame(results_csv(root))
    path = root / "results.csv"
    try:
        return _frame(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:  # not UTF-8, no table, words for numbers
        reason = str(error).partition("\n")[0]
        raise SkipbenchError(f"{path} is not what skipbench writes: {reason}; restore it, or make it anew") from error


def _frame(text: str) -> pd.DataFrame:
    """The frame of a results.csv; ValueError if the text is none."""
    import pandas as pd

    frame = pd.read_csv(io.StringIO(text, newline=""), dtype="string", keep_default_na=False, na_filter=False)
    if list(frame.columns) != list(COLUMNS):
        raise ValueError("its columns are others")
    for name in (*INTEGERS, *FLOATS):
        numbers = pd.to_numeric(frame[name].mask(frame[name] == ""))
        if name in INTEGERS and (numbers.dropna() % 1 != 0).any():
            raise ValueError(f"its {name} are not all integers")
        frame[name] = numbers.astype("Int64" if name in INTEGERS else "float64")
    return frame


def write_results_csv(root: str | Path) -> Path:
    """Bring DIR/results.csv up to date; a file that already has the right bytes is left alone. Returns its path."""
    path = Path(root) / "results.csv"
    replace_if_changed(path, results_csv(Path(root)).encode("utf-8", "backslashreplace"))
    return path


def results_csv(root: Path) -> str:
    """The text of results.csv, from run.json, scores.json and the timing files of a folder; sorted, floats exact."""
    rows = sorted(_rows(root), key=_order)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(COLUMNS)
    writer.writerows([_cell(row.get(name)) for name in COLUMNS] for row in rows)
    return out.getvalue()


def _rows(root: Path) -> Iterator[dict]:
    """Rows of the quality runs, then of the timing groups; what both count is told apart by the name's end."""
    configs, scored = {}, {}
    for run in load_runs(root):
        configs[run.config["run_id"]] = run.config
        if run.scores is not None:
            scored[run.config["run_id"]] = run.scores["values"]
            yield from _metric_rows(_run_columns(run.config), run.scores["values"])
    for group in load_timings(root):
        for entry in group["methods"]:
            both = scored.get(entry.get("run_id"), {})
            values = {f"{name}{TIMED}" if name in both else name: value for name, value in entry["values"].items()}
            yield from _metric_rows(_timing_columns(group, entry, configs), values)


def _run_columns(config: dict) -> dict:
    row = {name: config.get(name) for name in ("run_id", *FROM_CONFIG, *FROM_SETTING)}
    return {**row, **_model_columns(config.get("model")), **_method_columns(config["method"])}


def _timing_columns(group: dict, entry: dict, configs: dict[str, dict]) -> dict:
    """A timing row carries the id, split and n of the quality run it belongs to, and the group's own setting."""
    run = configs.get(entry.get("run_id"), {})
    row = {"suite": group.get("suite"), "run_id": entry.get("run_id"), "task": group["task"], "source": group["source"]}
    row |= {"split": run.get("split"), "n": run.get("n"), "checkpoint": entry.get("checkpoint")}
    row |= {name: group.get(name) for name in FROM_SETTING}
    return {**row, **_model_columns(group["model"]), **_method_columns(entry["method"])}


def _model_columns(model: dict | None) -> dict:
    model = model or {}  # a trivial output has none
    return {"model": model.get("name"), "params": model.get("params"), "num_layers": model.get("num_layers")}


def _method_columns(method: dict) -> dict:
    return {"method": method["name"], "variant": method.get("variant"), "target_speedup": method.get("target")}


def _metric_rows(columns: dict, values: dict) -> Iterator[dict]:
    for metric, entry in values.items():
        entry = entry if isinstance(entry, dict) else {"value": entry}
        yield {
            **columns,
            "metric": metric,
            "value": entry.get("value"),
            "ci_low": entry.get("low"),
            "ci_high": entry.get("high"),
        }


def _order(row: dict) -> tuple:
    return tuple((0, 0, "") if row[k] is None else _sortable(row[k]) for k in SORT if k in row)


def _sortable(value: object) -> tuple:
    return (2, 0, value) if isinstance(value, str) else (1, value, "")


def _cell(value: object) -> str:
    value = plain(value)
    return "" if value is None else value if isinstance(value, str) else repr(value)
