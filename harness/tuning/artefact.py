"""What was chosen on validation examples, as a JSON file that says what it was chosen for. No torch here.

Two kinds: `tuned` settings are fractions of the model's layers and serve other tasks too; a `calibrated` threshold
belongs to the very weights and task it was found on.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import SkipbenchError, UsageError
from ..results.documents import file_hash
from ..results.files import make_folder, read_json, replace_json

SCHEMA = 1
KINDS = ("tuned", "calibrated")
PROMISE = ("guarantee", "delta", "epsilon")  # of a threshold chosen by Learn then Test


@dataclass(frozen=True)
class Artefact:
    """Choices for one method, one an entry.

    Attributes:
        kind: `tuned` or `calibrated`.
        method, parameters: the method and what was fixed beforehand.
        model: {"name", "family", "num_layers", "weights"}; `weights` are those decoded, the base's for `tuned`.
        checkpoint: `own`, `base` or a folder.
        task, source, data_hash, seed: where it was chosen; the hash is of the validation split.
        entries: each {"target": float | None, "values": {parameter: value}, "found": {...}}.
    """

    kind: str
    method: str
    parameters: dict[str, Any]
    model: dict[str, Any]
    checkpoint: str
    task: str
    source: str
    data_hash: str
    seed: int
    entries: tuple[dict[str, Any], ...]

    def save(self, path: str | Path) -> Path:
        """Write it, whole or not at all."""
        path = Path(path)
        make_folder(path.parent)
        replace_json(path, {"schema": SCHEMA, **dataclasses.asdict(self)})
        return path

    @property
    def targets(self) -> list[float]:
        """Target speed-ups it has an entry for."""
        return [entry["target"] for entry in self.entries if entry["target"] is not None]


def load_artefact(path: str | Path) -> Artefact:
    """The artefact in a file; UsageError if there is none or it is of another kind."""
    path = Path(path)
    if not path.is_file():
        raise UsageError(f"there is no artefact {path}; `skipbench tune` and `skipbench calibrate` write them")
    try:
        document = read_json(path)
        if document.pop("schema") != SCHEMA or document["kind"] not in KINDS:
            raise ValueError
        if not all(map(_is_entry, document["entries"])):
            raise ValueError
        return Artefact(**{**document, "entries": tuple(document["entries"])})
    except (SkipbenchError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path} is no artefact of this version; make it again with tune or calibrate") from error


def _is_entry(entry: object) -> bool:
    if not isinstance(entry, dict) or not isinstance(entry.get("values"), dict):
        return False
    numbers = [*entry["values"].values(), 0 if entry.get("target", "") is None else entry.get("target")]
    return all(isinstance(number, (int, float)) for number in numbers)


def check_use(
    path: str | Path, artefact: Artefact, *, method: str, model: str, num_layers: int, task, transfer: bool = False
) -> None:
    """Raise UsageError, naming both values, if an artefact was not made for this method, model, depth and data.

    `tuned` fractions serve other tasks unchanged; with `transfer` also other models and other data.
    """
    if transfer and artefact.kind == "calibrated":
        raise UsageError(f"{path} holds calibrated thresholds, which belong to one model and cannot be transferred")
    agree(path, "method", artefact.method, method)
    if transfer:
        return
    agree(path, "number of layers", artefact.model["num_layers"], num_layers)
    agree(path, "model", artefact.model["name"], model)
    if artefact.kind == "calibrated":
        agree(path, "task", artefact.task, task.label)
    if artefact.task == task.label:
        agree(path, "validation data", artefact.data_hash[:12], task.data_hash("validation")[:12])


def check_weights(path: str | Path, weights: str) -> None:
    """Raise UsageError if thresholds were calibrated on other weights than these (a SHA-256, or a hub's commit)."""
    artefact = load_artefact(path)
    if artefact.kind == "calibrated":
        agree(path, "checkpoint's weights", *_told_apart(artefact.model["weights"], weights))


def _told_apart(one: str, other: str) -> tuple[str, str]:
    """Two identities as short as they still differ."""
    return (one, other) if one[:12] == other[:12] else (one[:12], other[:12])


def agree(path: str | Path, what: str, made_for: object, used_on: object) -> None:
    """UsageError naming both values unless they are equal."""
    if made_for != used_on:
        raise UsageError(
            f"artefact {path} was made for another {what}: {made_for!r} there, {used_on!r} here; tune or calibrate "
            "anew for this one"
        )


def parameters_for(
    path: str | Path, artefact: Artefact, num_layers: int, target: float | None, given: Mapping[str, Any]
) -> dict[str, Any]:
    """The method's parameters: what was fixed, what was chosen for `target`, and what the suite gives besides.

    Raises UsageError for a target without an entry, and for a parameter given with another value than was fixed.
    """
    entry = next((e for e in artefact.entries if e["target"] == target), None)
    if entry is None:
        known = ", ".join(f"{t:g}x" for t in artefact.targets) or "none, but a guarantee"
        wanted = "no target" if target is None else f"{target:g}x"
        raise UsageError(f"artefact {path} has no entry for {wanted}; its targets: {known}")
    chosen = entry["values"]
    if artefact.kind == "tuned":
        chosen = {name: layers_of(fraction, num_layers) for name, fraction in chosen.items()}
    made = {**artefact.parameters, **chosen}
    for name in made.keys() & given.keys():
        agree(path, f"{name} of {artefact.method}", made[name], given[name])
    return {**given, **made}


def layers_of(fraction: float, num_layers: int) -> int:
    """A share of the layers as a count: the nearest whole number, halves up, at least 1."""
    return max(1, math.floor(fraction * num_layers + 0.5 + 1e-9))


def artefact_facts(path: str | Path, target: float | None) -> dict[str, Any]:
    """What run.json says of the artefact that chose a run's parameters: which one, made where, and what it promises."""
    artefact = load_artefact(path)
    found = next((entry.get("found") or {} for entry in artefact.entries if entry["target"] == target), {})
    return {
        "file": Path(path).name,
        "sha256": file_hash(Path(path)),
        "kind": artefact.kind,
        "method": artefact.method,
        "task": artefact.task,
        "source": artefact.source,
        "target": target,
        **{name: found[name] for name in PROMISE if name in found},
    }
