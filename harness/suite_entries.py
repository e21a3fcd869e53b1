"""Task entries of a suite before they are validated: overrides from outside, and one entry a model.

A method's `model` names the model it runs on, where it needs one of its own kind. The entry is then split, and the
baseline runs on that model too, since ratios are formed on one model only.
"""

from __future__ import annotations

from typing import Any

from .errors import UsageError
from .notation import parse_method
from .registry import TASKS

BASELINE = "full"  # the method every ratio is formed against
ANYWHERE = "auto"  # as `data`: look where tasks look by themselves, even if the suite says otherwise

Entry = dict[str, Any]


def overridden(raw: dict, overrides: dict[str, Any]) -> dict:
    """A suite's mapping narrowed or changed by what was asked for: task, method, model, data, target, limit."""
    tasks = raw["tasks"]
    if overrides.get("task"):
        tasks = [entry for name in overrides["task"] for entry in _find_task(tasks, name)]
    if overrides.get("method"):
        methods = [parse_method(text) for text in overrides["method"]]
        tasks = [{**entry, "methods": [own for m in methods for own in _known(entry, m)]} for entry in tasks]
    if overrides.get("model"):
        tasks = [on_one_model(entry, overrides["model"], named=bool(overrides.get("method"))) for entry in tasks]
    direct = {"target": "targets", "limit": "limit"}
    changes = {field: overrides[key] for key, field in direct.items() if overrides.get(key) is not None}
    changed = {**raw, "tasks": [{**entry, **changes} for entry in tasks]}
    if overrides.get("data"):
        data = str(overrides["data"])
        changed["data"] = None if data == ANYWHERE else data
    return changed


def _find_task(entries: list[dict], name: str) -> list[dict]:
    """The suite's own entries for a task; one it does not have takes the settings of its kind, else the first one's."""
    base = name.partition(":")[0]
    TASKS.load(base)
    tasks = [entry.get("task") for entry in entries]
    same = [task for task in tasks if str(task).partition(":")[0] == base]
    like = name if name in tasks else [*same, *tasks][0]
    return [{**entry, "task": name} for entry in entries if entry.get("task") == like]


def _known(entry: dict, method: dict) -> list:
    """A method named without parameters is all that the suite has of that name, as the suite has it."""
    own = [{"name": m} if isinstance(m, str) else m for m in _methods(entry)]
    same = [m for m in own if isinstance(m, dict) and {**m, "params": {}} == {**m, **method}]
    return same or [method]


def by_model(entries: list[Entry]) -> list[Entry]:
    """Task entries with one model each: what methods with a model of their own need comes last."""
    kept, split = [], []
    for entry in entries:
        own = [method for method in _methods(entry) if _model(method)]
        rest = [method for method in _methods(entry) if not _model(method)]
        if not own or any(_name(method) != BASELINE for method in rest):
            kept.append({**entry, "methods": rest} if own else entry)
        for model in dict.fromkeys(map(_model, own)):
            there = [{k: v for k, v in method.items() if k != "model"} for method in own if _model(method) == model]
            split.append({**entry, "model": model, "methods": [_baseline(rest), *there]})
    return kept + split


def on_one_model(entry: Entry, model: str, named: bool) -> Entry:
    """The entry on a model asked for. Methods with one of their own are left out, or run there if asked for by name."""
    if not isinstance(entry.get("methods"), list):
        return {**entry, "model": model}
    methods = [
        {k: v for k, v in method.items() if k != "model"} if _model(method) else method
        for method in entry["methods"]
        if named or not _model(method)
    ]
    return {**entry, "model": model, "methods": methods}


def _methods(entry: Entry) -> list:
    methods = entry.get("methods")
    return methods if isinstance(methods, list) else []


def _model(method: object) -> str | None:
    model = method.get("model") if isinstance(method, dict) else None
    if model is not None and not isinstance(model, str):
        raise UsageError(f"method {_name(method)!r}: its model is a model's name, not {model!r}")
    return model


def _name(method: object) -> object:
    return method.get("name") if isinstance(method, dict) else method


def _baseline(methods: list) -> object:
    return next((method for method in methods if _name(method) == BASELINE), BASELINE)
