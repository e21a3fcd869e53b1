"""`skipbench calibrate`: the threshold of an early exit for a target speed-up, or one that keeps a promise."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import SkipbenchError, UsageError, unknown
from ..jobs.planning import QualityJob
from ..jobs.quality import Item, batches_of, padded
from ..jobs.quality_run import QualityRun
from ..jobs.workbench import Workbench
from ..method import EarlyExit
from ..method.forms import searched
from ..method.parameters import load_method
from ..progress import Reporter
from ..registry import METHODS
from ..tuning.calibrate import calibrate as search_threshold
from ..tuning.calibrate import with_value
from ..tuning.learn_then_test import candidate_values, learn_then_test
from .validation_split import (
    Decoded,
    bench_for,
    decode_items,
    default_path,
    job_for,
    make_artefact,
    prepared,
    score_items,
)

METRIC = "rougeL"  # per example and bounded: similarity of two outputs, and quality against the references
CONSISTENCIES = ("textual", "risk")


def calibrate(
    method: str, task: str, targets: Sequence[float | str] = (), *, guarantee: str | None = None, delta: float = 0.1,
    epsilon: float = 0.05, examples: int | None = None, checkpoint: str = "own", suite: str = "quick",
    model: str | None = None, data: str | Path | None = None, plugin=None, out: str | Path | None = None,
    quiet: bool = True,
) -> Path:  # fmt: skip
    """Choose an early exit's threshold on validation examples; returns the artefact's path.

    Either for each target layer-count speed-up, or by Learn then Test: with `guarantee="textual"` the mean
    dissimilarity (1 - ROUGE-L / 100) to the full model's outputs, with `"risk"` the mean loss of ROUGE-L against the
    references, is at most `delta` but for a probability of `epsilon` over the draw of the `examples`.
    """
    found, spec = prepared(method, task, suite, model=model, data=data, plugin=plugin, target=targets)
    _check(METHODS.load(spec.methods[0].name), dict(spec.methods[0].params), targets, guarantee, delta, epsilon)
    if examples is not None:
        spec = spec.model_copy(update={"calibration_examples": examples})
    with Reporter(quiet) as reporter:
        bench = bench_for(reporter)
        run = QualityRun(job_for(found, spec, None, checkpoint), bench)
        if guarantee is None:
            entries = [_for_target(run, bench, target) for target in spec.targets]
        else:
            entries = [_guaranteed(run, bench, guarantee, delta, epsilon)]
        artefact = make_artefact("calibrated", run, entries)
    return artefact.save(out or default_path(artefact, guarantee or "speed"))


def _check(cls: type[EarlyExit], params: dict, targets, guarantee: str | None, delta: float, epsilon: float) -> None:
    search = getattr(cls, "search", None)
    if search is None:
        raise UsageError(f"method {cls.name!r} has no threshold to calibrate: it names no search parameter")
    if search[0] in params:
        raise UsageError(f"{cls.name}: {search[0]} is what calibration chooses; do not give it")
    if guarantee is not None and guarantee not in CONSISTENCIES:
        raise unknown("guarantee", guarantee, CONSISTENCIES)
    if guarantee is not None and targets:
        raise UsageError("a guarantee finds its own speed; give --target or --guarantee, not both")
    for name, value in (("delta", delta), ("epsilon", epsilon)):
        if not 0 < value < 1:
            raise UsageError(f"{name} must lie between 0 and 1, not {value!r}")


def _for_target(run: QualityRun, bench: Workbench, target: float) -> dict[str, Any]:
    items = run.validation_items(run.job.spec.calibration_examples)
    batches = [padded(batch, run.backbone.fill_id) for batch in batches_of(items, run.job.spec.decoding.batch_size)]
    found = search_threshold(run.backbone, run.uncalibrated, batches, target, run.max_new_tokens)
    name = found.method.search[0]
    value = getattr(found.method, name)
    bench.say(f"{run.job.method} {target:g}x: {name}={value:.4g} gives {found.speedup:.2f}x on validation")
    facts = {"speedup": found.speedup, "examples": len(items), "tried": [list(pair) for pair in found.tried]}
    return {"target": target, "values": {name: value}, "found": facts}


def _guaranteed(run: QualityRun, bench: Workbench, guarantee: str, delta: float, epsilon: float) -> dict[str, Any]:
    """Learn then Test from the safest threshold on."""
    items = _drawn(run.validation_items(len(run.task.load("validation"))), run.job)
    name, low, high = run.uncalibrated.search
    loss = _loss(run, items, guarantee)
    speeds: dict[float, float] = {}

    def losses_of(value: float) -> np.ndarray:
        decoded = decode_items(run, with_value(run.uncalibrated, value), items)
        speeds[value] = decoded.speedup
        losses = loss(decoded)
        bench.say(f"  {name}={value:g}: {decoded.speedup:.2f}x, mean loss {losses.mean():.4f}")
        return losses

    candidates = dict.fromkeys(searched(type(run.uncalibrated), value) for value in candidate_values(low, high))
    chosen, tested = learn_then_test(list(candidates), losses_of, delta, epsilon)
    values = {name: chosen} if chosen is not None else _full_depth(run, guarantee, delta)
    bench.say(f"{run.job.method}: {name}={chosen:g} passed" if chosen is not None else "none passed: the full model")
    facts = {"guarantee": guarantee, "delta": delta, "epsilon": epsilon, "examples": len(items), "metric": METRIC}
    facts |= {"speedup": speeds.get(chosen, 1.0), "tested": [dataclasses.asdict(one) for one in tested]}
    return {"target": None, "values": values, "found": facts}


def _drawn(items: Sequence[Item], job: QualityJob) -> list[Item]:
    """A seeded random sample: the promise holds over the draw of independent examples."""
    count = min(job.spec.calibration_examples, len(items))
    places = random.Random(job.seed).sample(range(len(items)), count)
    return [items[place] for place in sorted(places)]


def _loss(run: QualityRun, items, guarantee: str) -> Callable[[Decoded], np.ndarray]:
    """The loss of each example in [0, 1]; the full model's outputs are decoded once, with the same weights."""
    full = decode_items(run, load_method("full", run.num_layers), items).outputs
    if guarantee == "textual":
        return lambda decoded: dissimilarity(decoded.outputs, full, run.task.language)
    best = score_items(run, full, items, METRIC, per_example=True)
    return lambda decoded: lost(best, score_items(run, decoded.outputs, items, METRIC, per_example=True))


def dissimilarity(outputs: Sequence[str], full: Sequence[str], language: str) -> np.ndarray:
    """1 - ROUGE-L / 100 of each output to the full model's; 0 where they are the same, be it without any word."""
    from ..scoring import score

    similar = score(outputs, [[text] for text in full], [METRIC], language, per_example=True)[METRIC]
    same = np.array([a == b for a, b in zip(outputs, full, strict=True)])
    return np.where(same, 0.0, 1 - np.array(similar) / 100)


def lost(full: Sequence[float], early: Sequence[float]) -> np.ndarray:
    """max(0, R_early - R_full) with R = 1 - metric / 100."""
    return np.maximum(np.subtract(full, early), 0) / 100


def _full_depth(run: QualityRun, guarantee: str, delta: float) -> dict[str, Any]:
    never = getattr(type(run.uncalibrated), "never_exits", None)
    if never is None:
        raise SkipbenchError(
            f"no threshold of {run.job.method} keeps the {guarantee} loss below {delta:g}; use the method full"
        )
    return never(run.num_layers)
