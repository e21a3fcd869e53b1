"""`skipbench bench`: every ratio of the engine's speed, measured side by side here, beside what is wanted of it."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass

from ..backbone import Backbone
from ..decoding.clock import DeviceClock, using_clock
from ..errors import UsageError
from ..method import Method
from ..method.parameters import load_method
from .batch_speeds import batch_speeds
from .group import measure_group
from .machine import environment
from .opponents import against_generate, over_matrix_products, without_cache
from .races import against_full, against_trainer
from .running import Entry
from .toys import ExitHalfWay, FiveMillisecondsMore, ends_half_way, random_model, random_prompts

NANO, MINI, TINY, SMALL = "nano-opt", "mini-opt", "tiny-opt", "smollm2-135m-instruct-q4_1"
GENERATE = {TINY: {1: 1.25, 8: 1.15, 32: 1.1}, SMALL: {1: 1.0, 8: 1.05}}  # wanted at each batch size
NEW_TOKENS = {TINY: 48, SMALL: 16}
TARGETS = (2, 4)
PROMPT, CACHED = 32, 256  # tokens of every prompt; new tokens with and without a cache
TRAIN_STEPS, TRAIN_ROUNDS = {MINI: 12, TINY: 4}, 5
TRAINER = {8: 1.15, 1: None}  # wanted by references a prompt: E2E has eight, most tasks one
ROUNDS = 7  # of a comparison with an opponent
GROUP_ROUNDS, TOY_ROUNDS, SECONDS = 80, 40, {TINY: 300.0, SMALL: 540.0}  # of a timing group, at most
BATCHES, BATCH_TOKENS, BATCH_ROUNDS = (1, 2, 4, 8, 16, 32), 48, 3


@dataclass(frozen=True)
class Row:
    """One ratio or figure; `low`, `high` are what is wanted of it, None where nothing is."""

    name: str
    value: float | None
    low: float | None = None
    high: float | None = None
    note: str = ""

    @property
    def ok(self) -> bool | None:
        """Whether it is as wanted; None where nothing is wanted or nothing was measured."""
        if self.value is None or (self.low is None and self.high is None):
            return None
        return (self.low is None or self.value >= self.low) and (self.high is None or self.value <= self.high)


def run_bench(echo: Callable[[str], None] = print, clock: DeviceClock | None = None) -> dict:
    """Measure everything, print each row as it is known, and return all of them with the environment, as JSON values.

    Takes minutes. A model that cannot be had leaves a row that says so.
    """
    clock = clock or DeviceClock()
    rows = []
    echo(f"{'figure':<66}{'measured':>10}  {'wanted':<12}")
    with using_clock(clock):
        for row in _rows(clock):
            rows.append(row)
            echo(as_line(row))
    return {"rows": [_as_json(row) for row in rows], "environment": environment()}


def as_line(row: Row) -> str:
    """A row of the table."""
    measured = "–" if row.value is None else f"{row.value:.3f}"
    bounds = [f">= {row.low:g}" if row.low is not None else "", f"<= {row.high:g}" if row.high is not None else ""]
    verdict = {True: "yes", False: "NO", None: ""}[row.ok]
    return f"{row.name:<66}{measured:>10}  {' '.join(filter(None, bounds)):<16}{verdict:<4}{row.note}".rstrip()


def _as_json(row: Row) -> dict:
    known = row.value is not None and math.isfinite(row.value)
    return asdict(row) | {"value": row.value if known else None, "ok": row.ok}


def _rows(clock: DeviceClock) -> Iterator[Row]:
    tiny = random_model(TINY)
    yield from _engine(TINY, tiny, clock)
    yield from _tiny_skipping(tiny, clock)
    yield from _by_batch(TINY, tiny, clock)
    yield _cache(tiny, clock)
    yield from _toys(tiny, clock)
    try:
        small = Backbone.load(SMALL)
    except UsageError as error:
        yield Row(SMALL, None, note=f"not measured: {error}")
    else:
        yield from _engine(SMALL, small, clock)
        yield from _small_skipping(small, clock)
    yield from _training(clock)
    yield Row("import harness (s)", _import_seconds(), high=0.2)


# -- the engine itself ------------------------------------------------------------------------------------------------


def _engine(name: str, backbone: Backbone, clock: DeviceClock) -> Iterator[Row]:
    """Full depth against `generate`, and a step against its bare matrix products."""
    full = load_method("full", backbone.num_layers)
    for batch, wanted in GENERATE[name].items():
        prompts = random_prompts(backbone, batch, PROMPT)
        found = against_generate(backbone, full, prompts, NEW_TOKENS[name], ROUNDS, clock)
        equal = "" if found["tokens_equal"] == 1 else f"only {found['tokens_equal']:.1%} of the tokens are equal"
        note = equal or f"[{found['low']:.3f}, {found['high']:.3f}], tokens equal"
        yield Row(f"{name}: decode over generate, batch {batch}", found["value"], low=wanted, note=note)
    high, rounds = (1.2, 8 * ROUNDS) if name == SMALL else (None, 2 * ROUNDS)
    for batch in (1, 8):
        found = over_matrix_products(backbone, full, random_prompts(backbone, batch, PROMPT), rounds, clock)
        note = f"[{found['low']:.3f}, {found['high']:.3f}]"
        yield Row(f"{name}: decode step over its bare matrix products, batch {batch}", found["value"], None, high, note)


def _cache(backbone: Backbone, clock: DeviceClock) -> Row:
    prompt = random_prompts(backbone, 1, PROMPT)[0][0].tolist()
    found = without_cache(backbone, load_method("full", backbone.num_layers), prompt, CACHED, clock)
    note = "tokens equal" if found["tokens_equal"] else "TOKENS DIFFER"
    return Row(f"{TINY}: {CACHED} tokens without a cache over with one", found["value"], note=note)


def _import_seconds() -> float:
    code = "import time; start = time.perf_counter(); import harness; print(time.perf_counter() - start)"
    return float(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout)


# -- skipping ---------------------------------------------------------------------------------------------------------


def _group(name: str, backbone: Backbone, clock: DeviceClock) -> dict:
    """Schedules at 2x and 4x and a softmax exit half way, at batch 1."""
    methods = _methods(name, backbone, TARGETS) | {"softmax exit at N/2": ExitHalfWay(backbone.num_layers)}
    entries = [Entry(key, backbone, method) for key, method in methods.items()]
    prompts = random_prompts(backbone, 1, PROMPT)
    return _measured(entries, prompts, NEW_TOKENS[name], clock, seconds=SECONDS[name])


def _measured(entries: list[Entry], prompts, new_tokens: int, clock: DeviceClock, **options) -> dict:
    """A timing group of more rounds than a suite's: here a difference of a few per cent decides."""
    limits = {"repeats": GROUP_ROUNDS, "seconds": SECONDS[TINY]} | options
    return measure_group(entries, prompts, new_tokens, clock=clock, **limits)


def _methods(name: str, backbone: Backbone, targets: Sequence[int]) -> dict[str, Method]:
    """Full depth, and both schedules at each target."""
    layers = backbone.num_layers
    horizon = {"prompt_size": PROMPT, "max_length": PROMPT + NEW_TOKENS[name] - 1}
    methods = {"full": load_method("full", layers)}
    for target in targets:
        methods[f"unified {target}x"] = load_method("unified", layers, target=target)
        methods[f"skipdecode {target}x"] = load_method("skipdecode", layers, target=target, **horizon)
    return methods


def _tiny_skipping(backbone: Backbone, clock: DeviceClock) -> Iterator[Row]:
    group = _group(TINY, backbone, clock)
    costs = {name: part["value"] for name, part in group["cost_model"].items()}
    yield Row(f"{TINY}: t_fixed over t_layer", costs["t_fixed_ms"] / costs["t_layer_ms"], high=1.5)
    yield Row(f"{TINY}: half the layers, wall-clock speed-up", _values(group, "unified 2x")["speedup_wall"], low=1.7)
    for key in _schedules(group):
        yield _predicted(TINY, group, key, 0.07)
    yield _predicted(TINY, group, "softmax exit at N/2", 0.1)


def _small_skipping(backbone: Backbone, clock: DeviceClock) -> Iterator[Row]:
    group = _group(SMALL, backbone, clock)
    for key in _schedules(group):
        found = _values(group, key)
        share = found["speedup_wall"] / found["speedup_bound"]
        note = f"{found['speedup_wall']:.2f}x of {found['speedup_bound']:.2f}x"
        yield Row(f"{SMALL}: {key}, speed-up over the head-aware bound", share, low=0.95, note=note)
    yield _predicted(SMALL, group, "softmax exit at N/2", 0.1)


def _schedules(group: dict) -> list[str]:
    return [key for key in group["methods"] if key.startswith(("unified", "skipdecode"))]


def _predicted(name: str, group: dict, key: str, margin: float) -> Row:
    found = _values(group, key)
    note = f"{found['speedup_wall']:.2f}x measured, {found['speedup_predicted']:.2f}x predicted"
    share = found["speedup_wall"] / found["speedup_predicted"]
    return Row(f"{name}: {key}, measured over predicted speed-up", share, 1 - margin, 1 + margin, note)


def _values(group: dict, key: str) -> dict:
    return {name: math.nan if v["value"] is None else v["value"] for name, v in group["methods"][key]["values"].items()}


def _by_batch(name: str, backbone: Backbone, clock: DeviceClock) -> Iterator[Row]:
    """What skipping is worth as batches grow: an exit runs what its slowest row needs, a schedule what all need."""
    methods = _methods(name, backbone, TARGETS[:1]) | {"calm": load_method("calm", backbone.num_layers, threshold=0.95)}
    for batch in BATCHES:
        found = batch_speeds(backbone, methods, random_prompts(backbone, batch, PROMPT), BATCH_TOKENS, BATCH_ROUNDS)
        for key, speed in found.items():
            note = f"{speed.tokens_per_s:.0f} tokens/s; layers needed {speed.needed:.2f}, run {speed.ran:.2f}"
            yield Row(f"{name}: {key}, speed-up over full at batch {batch}", speed.speedup["value"], note=note)


# -- training ---------------------------------------------------------------------------------------------------------


def _training(clock: DeviceClock) -> Iterator[Row]:
    """On models of its own: training changes the weights."""
    mini, tiny = random_model(MINI), random_model(TINY)
    full = load_method("full", mini.num_layers)
    for references, wanted in TRAINER.items():
        name = f"{MINI}: training over transformers.Trainer, {references} reference{'s' * (references > 1)} a prompt"
        try:
            found = against_trainer(mini, full, TRAIN_STEPS[MINI], TRAIN_ROUNDS, clock, references)
        except UsageError as error:
            yield Row(name, None, low=wanted, note=f"not measured: {error}")
        else:
            yield Row(name, found["value"], low=wanted, note=f"[{found['low']:.3f}, {found['high']:.3f}]")
    full = load_method("full", tiny.num_layers)
    method = load_method("skipdecode", tiny.num_layers, target=TARGETS[-1], prompt_size=30, max_length=60)
    found = against_full(tiny, full, method, TRAIN_STEPS[TINY], TRAIN_ROUNDS, clock)
    share = (found["value"] - 1) / (found["allowed"] - 1)
    note = f"{found['value']:.2f}x as fast as full, {found['allowed']:.2f}x allowed"
    yield Row(f"{TINY}: skipdecode {TARGETS[-1]}x, gain in training over what it allows", share, low=0.85, note=note)


# -- toys: is what we measure what we say? ----------------------------------------------------------------------------


def _toys(backbone: Backbone, clock: DeviceClock) -> Iterator[Row]:
    nano = random_model(NANO)  # a short step of its own, so that its noise is small beside the 5 ms
    slow = Entry("slow", nano, FiveMillisecondsMore(nano.num_layers))
    whole = Entry("full", nano, load_method("full", nano.num_layers))
    found = _values(_measured([whole, slow], random_prompts(nano, 1, PROMPT), 32, clock, repeats=TOY_ROUNDS), "slow")
    yield Row("toy with 5 ms more a token: overhead (ms)", found["overhead_ms"], 4.5, 6.0)
    full = load_method("full", backbone.num_layers)
    prompts = random_prompts(backbone, 1, PROMPT)
    short, end = ends_half_way(backbone, full, prompts, 64)
    entries = [Entry("full", backbone, full), Entry("short", short, full)]
    group = _measured(entries, prompts, 64, clock, repeats=TOY_ROUNDS, force_length=False)
    found, flags = _values(group, "short"), group["methods"]["short"]["flags"]
    note = f"{end} of 64 tokens; {'flagged' if any('shorter' in flag for flag in flags) else 'NOT FLAGGED'}"
    yield Row("toy with half the tokens: speed-up per token", found["speedup_wall"], 0.9, 1.1)
    yield Row("toy with half the tokens: speed-up end to end", found["speedup_total"], 1.6, 2.4, note)
