"""The timing group: methods timed side by side, in one process, in balanced order, at one forced output length."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ..backbone import Backbone
from ..decoding.clock import DeviceClock, using_clock
from ..errors import UsageError
from ..method import Speculative
from .conditions import CONDITIONS, same_conditions
from .costs import CostModel, confidence_ms
from .machine import environment
from .probes import probes
from .reads import speedup_reads, weight_reads
from .running import Entry, EntryFailed, Runs, Shape, no_collection, run_rounds, warm_up
from .values import believed, exact, method_entry

BASELINE = "full"
REPEATS, SECONDS, WIDTH = 20, 60.0, 0.05


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
        new_tokens: output tokens of every row, or with `force_length=False` the most a row may have before its EOS;
            then the cost model, which needs equal lengths, is left out.
        repeats, seconds, width: rounds go on until the 95 % interval of every ratio is at most `width` of the ratio, or
            there were `repeats` rounds, or another would end after `seconds` on the clock. One is always made.

    Returns a timing file without ids: conditions, `methods` by entry key with `values`, `flags` and `raw`, the
    `cost_model` and the environment.

    Raises UsageError for entries that were not made alike and for methods that decide in hindsight, and EntryFailed
    naming an entry beside the baseline that fails while it is timed; the others may be timed without it.
    """
    shape = Shape(prompts, new_tokens, force_length, clock or DeviceClock())
    baseline = _check(entries, shape, repeats)
    until = shape.clock.read(baseline.backbone.device) + seconds
    extra = probes(baseline.method.num_layers) if force_length else {}
    try:
        with using_clock(shape.clock), no_collection():
            runs = {entry.key: warm_up(entry, shape) for entry in entries}
            probed = {name: warm_up(Entry(name, baseline.backbone, m), shape) for name, m in extra.items()}
            reference = runs[baseline.key]
            rounds = run_rounds([*runs.values()], [*probed.values()], reference, shape, repeats, until, width)
            model = _cost_model(runs, probed, reference, shape) if probed else None
    except EntryFailed as failure:
        if any(failure.key == entry.key for entry in entries if entry is not baseline):
            raise
        raise failure.error from None  # without the baseline, or a probe run with its method, nothing can be said
    return _timing_file(runs, reference, shape, rounds, model)


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


def _cost_model(runs: dict[str, Runs], probed: dict[str, Runs], baseline: Runs, shape: Shape) -> CostModel:
    """The model of the rounds in which nothing was disturbed: each of its numbers draws on several entries."""
    kept, doubt = believed([*runs.values(), *probed.values()])
    everything = {("method", key): one for key, one in runs.items()} | probed | {"full": baseline}
    times = {name: [ms for i, ms in enumerate(one.ms) if i in kept] for name, one in everything.items()}
    entry = baseline.entry
    confidence = confidence_ms(entry.backbone, len(shape.prompts[0]), shape.clock)
    return CostModel(times, entry.method.num_layers, confidence, doubt)


def _timing_file(runs: dict[str, Runs], baseline: Runs, shape: Shape, rounds: int, model: CostModel | None) -> dict:
    mask, backbone = shape.prompts[1], baseline.entry.backbone
    file = {
        "schema": 1,
        **conditions(backbone, len(mask)),
        "prompt_tokens": float(mask.sum()) / len(mask),
        "new_tokens": shape.new_tokens,
        "force_length": shape.force_length,
        "repeats": rounds,
        "baseline": baseline.entry.key,
        "methods": {},
        "cost_model": model and model.parts(),
        "environment": environment(),
    }
    reads = weight_reads(backbone)
    for key, one in runs.items():
        entry = conditions(one.entry.backbone, len(mask)) | method_entry(one, baseline, int(mask.sum()))
        if model:
            guesses = isinstance(one.entry.method, Speculative)
            entry["values"] |= model.values(("method", key), one.trace, baseline.trace, guesses)
        entry["values"]["speedup_reads"] = exact(speedup_reads(reads, one.trace, baseline.trace))
        file["methods"][key] = entry
    return file


def _check(entries: Sequence[Entry], shape: Shape, repeats: int) -> Entry:
    """The baseline, or UsageError."""
    if not entries or len({entry.key for entry in entries}) != len(entries):
        raise UsageError(f"a timing group needs entries with different keys, not {[entry.key for entry in entries]}")
    if shape.new_tokens < 2 or repeats < 1:
        raise UsageError(f"timing needs new_tokens >= 2 and repeats >= 1, not {shape.new_tokens} and {repeats}")
    hindsight = [entry.key for entry in entries if entry.method.kv_policy == "oracle"]
    if hindsight:
        raise UsageError(f"{hindsight[0]} decides in hindsight (kv_policy 'oracle'), so its time means nothing")
    baseline = next((entry for entry in entries if entry.key == BASELINE), entries[0])
    for entry in entries:
        _check_alike(baseline, entry, len(shape.prompts[0]))
    return baseline


def _check_alike(baseline: Entry, entry: Entry, batch: int) -> None:
    ours, theirs = conditions(baseline.backbone, batch), conditions(entry.backbone, batch)
    if not same_conditions(ours, theirs):
        unlike = [f"{name} {ours[name]} and {theirs[name]}" for name in CONDITIONS if ours[name] != theirs[name]]
        raise UsageError(f"{baseline.key} and {entry.key} cannot be timed together: {', '.join(unlike)}")
    depths = baseline.method.num_layers, entry.method.num_layers
    if depths[0] != depths[1]:
        raise UsageError(f"{baseline.key} and {entry.key} cannot be timed together: {depths[0]} and {depths[1]} layers")
