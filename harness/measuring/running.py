"""Timed decode calls of one entry, at the one shape of its group."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from torch import Tensor

from ..backbone import Backbone
from ..decoding import DecodeOutput, decode
from ..decoding.clock import DeviceClock
from ..errors import SkipbenchError
from ..method import Method
from .memory import peak_memory
from .rounds import narrow, round_order
from .samples import Sample, Trace, kv_bytes_by_step


@dataclass(frozen=True)
class Entry:
    """One method on one model in a timing group; several entries may share a backbone."""

    key: str
    backbone: Backbone
    method: Method


@dataclass(frozen=True)
class Shape:
    """What every call of a group decodes: ids and mask [batch, tokens], and the output length."""

    prompts: tuple[Tensor, Tensor]
    new_tokens: int
    force_length: bool
    clock: DeviceClock

    @property
    def longest(self) -> int:
        """Tokens of the longest prompt."""
        return int(self.prompts[1].sum(1).max())

    def decode(self, entry: Entry) -> DecodeOutput:
        """One call."""
        return decode(entry.backbone, entry.method, *self.prompts, self.new_tokens, force_length=self.force_length)


class EntryFailed(SkipbenchError):
    """A method that fails while it is timed: `key` names its entry, `error` is what it raised."""

    def __init__(self, key: str, error: Exception) -> None:
        super().__init__(f"{key} fails while it is timed: {type(error).__name__}: {error}")
        self.key, self.error = key, error


@contextmanager
def _blaming(entry: Entry) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # a method may raise anything
        raise EntryFailed(entry.key, error) from error


@dataclass
class Runs:
    """What was measured of an entry: the first call apart, then one sample a round."""

    entry: Entry
    trace: Trace
    kv_by_step: list[float]  # bytes of keys and values held after each decode step
    first_s: float
    memory: int | None  # bytes at the peak of one call
    samples: list[Sample] = field(default_factory=list)

    @property
    def ms(self) -> list[float]:
        """Milliseconds between two output tokens of a row: N tokens have N - 1 such spans in the decode time."""
        return [1e3 * s.decode_s / self.trace.steps for s in self.samples if self.trace.steps]


def warm_up(entry: Entry, shape: Shape) -> Runs:
    """The first call at the real shape, its time kept apart and its trace counted; then one for its memory.

    Raises EntryFailed, whatever the method raises.
    """
    with _blaming(entry):
        sample, out = timed(entry, shape)
        kv_by_step = kv_bytes_by_step(out, entry.method, shape.longest, shape.new_tokens)
        memory = peak_memory(lambda: shape.decode(entry), entry.backbone.device)
        return Runs(entry, Trace.of(out, entry.method), kv_by_step, sample.call_s, memory)


def timed(entry: Entry, shape: Shape) -> tuple[Sample, DecodeOutput]:
    """One call between two readings of the clock."""
    device = entry.backbone.device
    called, had = shape.clock.read(device), shape.clock.cpu(device)
    out = shape.decode(entry)
    ended = shape.clock.read(device)
    share = None if had is None else min(1.0, (shape.clock.cpu(device) - had) / (ended - called))
    return Sample(out.timing.prefill_s, out.timing.decode_s, ended - called, share), out


def run_rounds(
    runs: Sequence[Runs], probes: Sequence[Runs], baseline: Runs, shape: Shape, repeats: int, until: float, width: float
) -> int:
    """Rounds in which everything runs once; returns how many there were.

    The last one is that after which all ratios are narrow, number `repeats`, or the last to end before `until`. Raises
    EntryFailed as `warm_up` does.
    """
    everything = [*runs, *probes]
    for number in range(repeats):
        begun = shape.clock.now()
        for place in round_order(len(everything), number):
            one = everything[place]
            with _blaming(one.entry):
                one.samples.append(timed(one.entry, shape)[0])
        gc.collect(0)  # here, since it is off while something is timed; what is older can wait
        now = shape.clock.now()
        if now + (now - begun) > until or all(_settled(one, baseline, width) for one in runs):
            return number + 1
    return repeats


def _settled(runs: Runs, baseline: Runs, width: float) -> bool:
    return narrow([a / b for a, b in zip(baseline.ms, runs.ms, strict=False) if b], width)


@contextmanager
def no_collection() -> Iterator[None]:
    """No garbage collection inside a timed call."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
