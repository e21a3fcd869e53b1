"""The types of the fields that readers of a results folder rely on; what else a document holds is free."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError


class _Shape(BaseModel):
    model_config = ConfigDict(strict=True, allow_inf_nan=False, extra="ignore")


class _Number(_Shape):
    value: float | None
    low: float | None = None
    high: float | None = None
    note: str | None = None
    flag: str | None = None


def _with_bounds(value: object) -> object:
    return value if isinstance(value, dict) else {"value": value}


_Values = dict[str, Annotated[_Number, BeforeValidator(_with_bounds)]]  # a bare number has no interval


class _Method(_Shape):
    name: str
    variant: str | None = None
    params: dict[str, Any] | None = None
    given: dict[str, Any] | None = None  # as asked for; older runs lack it
    tuned: dict[str, Any] | None = None  # the artefact that chose the others
    target: float | None = None


class _Model(_Shape):
    name: str | None = None
    num_layers: int | None = None
    params: int | None = None


class _Setting(_Shape):
    suite: str | None = None
    batch_size: int | None = None
    dtype: str | None = None
    device: str | None = None
    threads: int | None = None
    attention: str | None = None
    decoding: str | None = None
    seed: int | None = None


class _Plan(_Shape):
    prompt: list[int]
    steps: list[list[int]]


class Config(_Setting):
    """run.json."""

    run_id: str
    task: str
    method: _Method
    model: _Model | None = None  # a trivial output has none
    plan: _Plan | None = None
    split: str | None = None
    source: str | None = None
    data_hash: str | None = None
    checkpoint: str | None = None
    metrics: list[str] | None = None
    comparable: str | None = None
    n: int | None = None
    limit: int | None = None
    max_prompt_tokens: int | None = None
    max_new_tokens: int | None = None
    training: dict[str, Any] | None = None
    environment: dict[str, Any] | None = None


class Scores(_Shape):
    """scores.json."""

    run_id: str
    n: int
    values: _Values
    records_sha256: str
    run_sha256: str
    scorer: dict[str, str] | None = None
    per_example: dict[str, list[float | None] | None] | None = None
    loss_by_position: list[float | None] | None = None
    tokens_by_position: list[float | None] | None = None


class _Timed(_Shape):
    method: _Method
    values: _Values
    run_id: str | None = None
    checkpoint: str | None = None
    kv_bytes_by_step: list[float] | None = None


class Timing(_Setting):
    """A file of timing/."""

    group_id: str
    task: str
    source: str
    model: _Model
    methods: list[_Timed]
    missing: list[str] | None = None
    failed: dict[str, str] | None = None


class Suite(_Shape):
    """suite.json."""

    suite: str
    hash: str
    jobs: list[str]


class Failure(_Shape):
    """A file of failures/."""

    error: str
    job: dict[str, Any] | None = None


def field_fault(shape: type[BaseModel], document: dict) -> str | None:
    """The first field that is missing or of another type, as a phrase; None if all fit."""
    try:
        shape.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        name = ".".join(map(str, first["loc"]))
        if first["type"] == "missing":
            return f"it has no {name!r}"
        wanted = first["msg"].lower().partition(" or instance of ")[0]
        return f"its {name} is {first['input']!r:.60}: {wanted}"
    return None
