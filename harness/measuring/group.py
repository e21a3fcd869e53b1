"""The timing group: methods timed side by side, in one process, in balanced order, at one forced output length."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ..backbone import Backbone
from ..decoding import decode
from ..decoding.clock import DeviceClock, using_clock
from ..errors import UsageError
from ..method import Method
from .conditions import CONDITIONS, same_conditions
from .machine import environment
from .rounds import narrow, round_order
from .samples import Sample, Trace
from .values import method_entry

BASELINE = "full"
REPEATS, SECONDS, WIDTH = 20, 60.0, 0.05


@dataclass(frozen=True)
class Entry:
    """One method on one model in a timing group; several entries may share a backbone."""

    key: str
    backbone: Backbone
    method: Method


@dataclass
class Runs:
    """What was measured of an entry: the first call apart, then one sample a round."""

    entry: Entry
    first_s: float = 0.0
    trace: Trace | None = None
    samples: list[Sample] = field(default_factory=list)


def measure_group(
    entries: Sequence[Entry],
    prompts: tuple[Tensor, Tensor],
    new_tokens: int,
    *,
    force_length: bool = True,
    repeats: int = REPEATS,
    seconds: float = SECONDS,
    width: float = WIDTH,
    clock: DeviceClock | None = None,
) -> dict:
    """Time all entries against the one named `full` (else the first), in rounds in which each runs once.

    Args:
        prompts: input ids and attention mask, both [batch, tokens].
        new_tokens: output tokens of every row (with `force_length`), or the most a row may have.
        repeats, seconds, width: rounds go on until the 95 % interval of every ratio is at most `width` of the ratio, or
            there were `repeats` rounds, or another would end after `seconds` on the clock. One is always made.

    Returns a timing file without ids: conditions, `methods` by entry key with `values` and `raw`, the environment.

    Raises UsageError for entries that were not made alike and for methods that decide in hindsight.
    """
    clock = clock or DeviceClock()
    baseline = _check(entries, prompts, new_tokens, repeats)
    ids, mask = prompts
    shape = {"prompts": prompts, "new_tokens": new_tokens, "force_length": force_length, "clock": clock}
    runs = {entry.key: Runs(entry) for entry in entries}
    start = clock.now()
    with using_clock(clock), _no_collection():
        for one in runs.values():
            warm_up(one, **shape)
        rounds = _rounds(list(runs.values()), runs[baseline.key], shape, repeats, seconds, width, start)
    return {
        "schema": 1,
        **conditions(baseline.backbone, len(ids)),
        "prompt_tokens": float(mask.sum()) / len(ids),
        "new_tokens": new_tokens,
        "force_length": force_length,
        "repeats": rounds,
        "baseline": baseline.key,
        "methods": {
            key: conditions(one.entry.backbone, len(ids)) | method_entry(one, runs[baseline.key], int(mask.sum()))
            for key, one in runs.items()
        },
        "environment": environment(),
    }


def conditions(backbone: Backbone, batch_size: int) -> dict:
    """What two timings must share before a ratio is formed."""
    return {
        "batch_size": batch_size,
        "dtype": str(backbone.compute_dtype).removeprefix("torch."),
        "device": backbone.device.type,
        "threads": torch.get_num_threads(),
        "attention": backbone.attention,
        "decoding": "greedy",
    }


def warm_up(runs: Runs, prompts, new_tokens: int, force_length: bool, clock: DeviceClock) -> None:
    """The first call, at the real shape: its time is kept apart, its trace is what every later call does again."""
    sample, out = _timed(runs.entry, prompts, new_tokens, force_length, clock)
    longest = int(prompts[1].sum(1).max())
    runs.first_s, runs.trace = sample.call_s, Trace.of(out, runs.entry.method, longest, new_tokens)


def _rounds(runs: list[Runs], baseline: Runs, shape: dict, repeats: int, seconds: float, width: float, start) -> int:
    clock = shape["clock"]
    for number in range(repeats):
        begun = clock.now()
        for place in round_order(len(runs), number):
            runs[place].samples.append(_timed(runs[place].entry, **shape)[0])
        gc.collect()  # here, since it is off while something is timed
        now = clock.now()
        if now + (now - begun) - start > seconds or all(_settled(one, baseline, width) for one in runs):
            return number + 1
    return repeats


def _settled(runs: Runs, baseline: Runs, width: float) -> bool:
    pairs = zip(baseline.samples, runs.samples, strict=True)
    return narrow([a.decode_s / b.decode_s for a, b in pairs if b.decode_s], width)


def _timed(entry: Entry, prompts, new_tokens: int, force_length: bool, clock: DeviceClock):
    ids, mask = prompts
    device = entry.backbone.device
    called = clock.read(device)
    out = decode(entry.backbone, entry.method, ids, mask, new_tokens, force_length=force_length)
    ended = clock.read(device)
    return Sample(out.timing.prefill_s, out.timing.decode_s, ended - called), out


def _check(entries: Sequence[Entry], prompts, new_tokens: int, repeats: int) -> Entry:
    """The baseline, or UsageError."""
    if not entries or len({entry.key for entry in entries}) != len(entries):
        raise UsageError(f"a timing group needs entries with different keys, not {[entry.key for entry in entries]}")
    if new_tokens < 2 or repeats < 1:
        raise UsageError(f"timing needs new_tokens >= 2 and repeats >= 1, not {new_tokens} and {repeats}")
    hindsight = [entry.key for entry in entries if entry.method.kv_policy == "oracle"]
    if hindsight:
        raise UsageError(f"{hindsight[0]} decides in hindsight (kv_policy 'oracle'), so its time means nothing")
    baseline = next((entry for entry in entries if entry.key == BASELINE), entries[0])
    batch = len(prompts[0])
    for entry in entries:
        ours, theirs = conditions(baseline.backbone, batch), conditions(entry.backbone, batch)
        if not same_conditions(ours, theirs):
            unlike = [f"{name} {ours[name]} and {theirs[name]}" for name in CONDITIONS if ours[name] != theirs[name]]
            raise UsageError(f"{baseline.key} and {entry.key} cannot be timed together: {', '.join(unlike)}")
    return baseline


@contextmanager
def _no_collection() -> Iterator[None]:
    """No garbage collection inside a timed call."""
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
