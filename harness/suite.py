"""Suites: what is to be compared, as a validated YAML file.

A suite file lists tasks and methods; whatever is the same for all tasks stands at the top and may be overridden in a
task's entry. Names are checked against the registry, so a plug-in's name is as good as a built-in's.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, ValidationError, ValidationInfo, field_validator

from .errors import UsageError, unknown
from .notation import check_speedup, read_yaml
from .registry import METHODS
from .scoring.names import check_metrics
from .suite_entries import by_model, overridden

FOLDER = Path(__file__).parent / "suites"
Seed = Annotated[int, Field(ge=0, lt=2**32)]  # what numpy and torch both take


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @field_validator("*", mode="before")
    @classmethod
    def _yes_is_no_number(cls, value: Any, info: ValidationInfo) -> Any:
        """YAML reads `yes` and `on` as true, which would pass for 1."""
        wanted = str(cls.model_fields[info.field_name].annotation)
        items = value if isinstance(value, list) else [value]
        if ("int" in wanted or "float" in wanted) and any(isinstance(item, bool) for item in items):
            raise ValueError(f"a number, not {json.dumps(value)}")
        return value


class TrainingSpec(_Strict):
    """Steps of the base and of each method's own fine-tuning; see `harness.training.Recipe` for the rest.

    A model that brings its own weights needs no base and no vocabulary. `split` holds the training examples.
    """

    base_steps: int | None = Field(None, gt=0)
    own_steps: int = Field(gt=0)
    batch_size: int = Field(32, gt=0)
    base_learning_rate: float | None = Field(None, gt=0)
    own_learning_rate: float = Field(gt=0)
    vocab_size: int = Field(2048, ge=300)
    split: str = "train"


class DecodingSpec(_Strict):
    """How test examples are decoded. Limits of None are the task's own."""

    batch_size: int = Field(32, gt=0)
    dtype: Literal["float32", "float64", "bfloat16", "float16"] = "float32"
    device: str = Field("cpu", pattern=r"^(cpu|cuda|mps|xpu)(:\d+)?$")
    max_prompt_tokens: int | None = Field(None, gt=0)
    max_new_tokens: int | None = Field(None, gt=0)
    temperature: float = Field(0.0, ge=0)
    top_p: float = Field(1.0, gt=0, le=1)


class TimingSpec(_Strict):
    """Timing groups: all methods interleaved at each batch size, with forced output length."""

    batch_sizes: list[PositiveInt] = []
    new_tokens: int = Field(32, gt=1)
    repeats: int = Field(5, gt=0)
    seconds: float = Field(60.0, gt=0)


class MethodSpec(_Strict):
    """A method with fixed parameters; one with parameters of its own may still be run at every target.

    `seeds_of` runs it once for each seed of a parameter: `{skip_seed: [0, 1, 2]}`. `tuned` is an artefact of
    `skipbench tune` or `calibrate`; `transfer` lets its fractions serve another model than they were found on. In a
    file a method may name a `model` of its own, on which the baseline then runs too.
    """

    name: str
    params: dict[str, Any] = {}
    targets: list[float] | None = None
    seeds_of: dict[str, list[Seed]] = {}
    tuned: str | None = Field(None, min_length=1)
    transfer: bool = False

    @field_validator("targets")
    @classmethod
    def _targets_are_speedups(cls, values: list[float] | None) -> list[float] | None:
        return values if values is None else [check_speedup(value) for value in values]

    @field_validator("params")
    @classmethod
    def _target_is_no_parameter(cls, params: dict[str, Any]) -> dict[str, Any]:
        if "target" in params:
            raise ValueError("a target speed-up is given under 'targets', not as a parameter")
        return params

    @field_validator("seeds_of")
    @classmethod
    def _seeds_end_in_seed(cls, values: dict[str, list[int]]) -> dict[str, list[int]]:
        for name, seeds in values.items():
            if not name.endswith("seed") or not seeds or len(set(seeds)) != len(seeds):
                raise ValueError("a parameter whose name ends in 'seed', with a list of different seeds")
        return values


class TaskSpec(_Strict):
    """One task with everything it needs, after the suite's defaults were filled in."""

    task: str
    model: str = Field(min_length=1)
    targets: list[float]
    methods: list[MethodSpec] = Field(min_length=1)
    checkpoints: list[str] = Field(["own"], min_length=1)
    seeds: list[Seed] = Field([0], min_length=1)
    split: str = "test"
    limit: int | None = Field(None, gt=0)
    training: TrainingSpec
    decoding: DecodingSpec = DecodingSpec()
    timing: TimingSpec = TimingSpec()
    calibration_examples: int = Field(96, gt=0)
    metrics: list[str] = []  # beside the task's own

    @field_validator("methods", mode="before")
    @classmethod
    def _names_are_methods(cls, values: Any) -> Any:
        return [{"name": v} if isinstance(v, str) else v for v in values] if isinstance(values, list) else values

    @field_validator("targets")
    @classmethod
    def _targets_are_speedups(cls, values: list[float]) -> list[float]:
        return [check_speedup(value) for value in values]

    def further_metrics(self, own: Iterable[str]) -> list[str]:
        """The metrics asked for that are not among a task's own, whatever their order."""
        return sorted(set(self.metrics) - set(own))


class Suite(_Strict):
    """A validated suite."""

    name: str = Field(pattern=r"^\w[^/\\]*$")  # also the results folder's
    description: str = ""
    data: str | None = None  # where tasks look first, as --data
    tasks: list[TaskSpec]


def suite_names() -> list[str]:
    """Built-in suites."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def description(name: str) -> str:
    """What a built-in suite says of itself."""
    path = FOLDER / f"{name}.yaml"
    return str(read_yaml(path.read_text(encoding="utf-8"), str(path)).get("description", ""))


def load_suite(name: str | Path, overrides: dict[str, Any] | None = None) -> Suite:
    """A suite by name or YAML file, validated. `overrides` narrow or replace: task, method, model, data, target, limit.

    Raises UsageError in one line for anything that does not fit, naming the place and the nearest valid names.
    """
    name = str(name)
    path = Path(name) if name.endswith((".yaml", ".yml")) else FOLDER / f"{name}.yaml"
    if not path.is_file():
        raise unknown("suite", name, suite_names())
    try:
        raw = read_yaml(path.read_text(encoding="utf-8"), f"suite file {path}")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"suite file {path} cannot be read: {error}") from error
    if not isinstance(raw, dict) or not isinstance(raw.get("tasks"), list) or not raw["tasks"]:
        raise UsageError(f"suite file {path} must be a mapping with a list 'tasks'")
    raw = overridden(_with_defaults(raw, path), overrides or {})
    raw = {**raw, "tasks": by_model(raw["tasks"])}
    try:
        suite = Suite(**{"name": path.stem, **raw})
    except ValidationError as error:
        raise UsageError(f"suite {path.stem!r}: {_first_problem(error)}") from error
    _check_names(suite)
    return suite


def suite_hash(suite: Suite) -> str:
    """SHA-256 of the validated suite."""
    return hashlib.sha256(suite.model_dump_json().encode()).hexdigest()


# -- filling in ------------------------------------------------------------------------------------


def _with_defaults(raw: dict, path: Path) -> dict:
    """Every task entry with the suite's shared settings filled in; nested mappings are merged."""
    own = {"name", "description", "data", "tasks"}
    shared = {key: value for key, value in raw.items() if key not in own}
    tasks = []
    for entry in raw["tasks"]:
        entry = {"task": entry} if isinstance(entry, str) else entry
        if not isinstance(entry, dict):
            raise UsageError(f"suite file {path}: a task is a name or a mapping, not {entry!r}")
        tasks.append(_merged(shared, entry))
    return {key: value for key, value in {**raw, "tasks": tasks}.items() if key in own}


def _merged(base: dict, over: dict) -> dict:
    shared = base.keys() & over.keys()
    both = {k: _merged(base[k], over[k]) for k in shared if isinstance(base[k], dict) and isinstance(over[k], dict)}
    return {**base, **over, **both}


def _check_names(suite: Suite) -> None:
    from .task import load_task

    for spec in suite.tasks:
        load_task(spec.task)
        check_metrics(spec.metrics)
        for method in spec.methods:
            METHODS.load(method.name)


def _first_problem(error: ValidationError) -> str:
    problem = error.errors()[0]
    place = ".".join(str(part) for part in problem["loc"])
    if problem["type"] == "extra_forbidden":
        return f"{place}: there is no such setting"
    if problem["type"] == "value_error":  # one of ours, which says it all
        return f"{place}: {problem['ctx']['error']}"
    return f"{place}: {problem['msg'].lower()}, not {json.dumps(problem.get('input'), default=str)[:80]}"
