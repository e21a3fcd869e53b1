"""`skipbench tune`: a schedule's open counts of layers for each target speed-up, found on validation examples."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..errors import UsageError
from ..jobs.preflight import check_first_metric
from ..jobs.quality import reference_pairs
from ..jobs.quality_run import QualityRun
from ..method import LayerSchedule
from ..progress import Reporter
from ..registry import METHODS
from ..tuning.search import Finalist, Ranked, rank, winner
from .validation_split import (
    bench_for,
    decode_items,
    default_path,
    job_for,
    make_artefact,
    prepared,
    score_items,
)

RANKED_ON = 128  # validation examples
DECODED_ON = 200
FINALISTS = 3


def tune(
    method: str, task: str, targets: Sequence[float | str], *, suite: str = "quick", model: str | None = None,
    data: str | Path | None = None, plugin=None, out: str | Path | None = None, quiet: bool = True,
) -> Path:  # fmt: skip
    """Find a method's `tuned_counts` for each target; returns the artefact's path.

    Candidates come from `tuning_candidates`, are ranked by the base model's teacher-forced loss under their plans, and
    the best three are fine-tuned and decode: the best main metric within 5 % of the target wins. The suite says how
    models are trained. Raises UsageError for methods without candidates.
    """
    found, spec = prepared(method, task, suite, model=model, data=data, plugin=plugin, target=targets)
    cls = METHODS.load(spec.methods[0].name)
    if not hasattr(cls, "tuning_candidates") or not getattr(cls, "tuned_counts", None):
        raise UsageError(f"method {cls.name!r} has nothing to tune: it brings no tuning_candidates and tuned_counts")
    with Reporter(quiet) as reporter:
        bench = bench_for(reporter)
        base = QualityRun(job_for(found, spec, spec.targets[0], "base"), bench)
        check_first_metric(base.task)
        entries = [_entry(QualityRun(job_for(found, spec, t, "base"), bench), cls) for t in spec.targets]
        artefact = make_artefact("tuned", base, entries)
    return artefact.save(out or default_path(artefact))


def _entry(base: QualityRun, cls: type[LayerSchedule]) -> dict[str, Any]:
    """The choice for one target, with what it was chosen from."""
    target, bench = base.job.target, base.bench
    ranked = _ranked(base, cls)
    finalists = [_finalist(base, cls, candidate) for candidate in ranked[:FINALISTS]]
    best = winner(finalists, target)
    counts = _counts(cls, best.method)
    bench.say(f"{cls.name} {target:g}x: {_words(counts)} is best")
    return {
        "target": target,
        "values": {name: count / base.num_layers for name, count in counts.items()},
        "found": {
            "metric": base.task.metrics[0],
            "candidates": len(ranked),
            "finalists": [_facts(cls, finalist) for finalist in finalists],
            **_facts(cls, best),
        },
    }


def _ranked(base: QualityRun, cls: type[LayerSchedule]) -> list[Ranked]:
    lengths = base.bench.checkpoints.lengths(base.setting)
    candidates = cls.tuning_candidates(base.num_layers, base.job.target, lengths, **dict(base.job.params))
    pairs = reference_pairs(base.backbone, base.validation_items(RANKED_ON), base.max_new_tokens)
    return rank(base.backbone, candidates, pairs, base.max_new_tokens)


def _finalist(base: QualityRun, cls: type[LayerSchedule], candidate: Ranked) -> Finalist:
    """Fine-tune a candidate and decode validation examples with it."""
    counts = _counts(cls, candidate.method)
    params = tuple(sorted({**dict(base.job.params), **counts}.items()))
    run = QualityRun(dataclasses.replace(base.job, params=params, target=None, checkpoint="own"), base.bench)
    items = run.validation_items(DECODED_ON)
    decoded = decode_items(run, run.method, items)
    score = score_items(run, decoded.outputs, items, base.task.metrics[0])
    base.bench.say(f"  {_words(counts)}: {decoded.speedup:.2f}x, {base.task.metrics[0]} {score:.2f}")
    return Finalist(run.method, candidate.loss, score, decoded.speedup)


def _counts(cls: type[LayerSchedule], method: LayerSchedule) -> dict[str, int]:
    return {name: getattr(method, name) for name in cls.tuned_counts}


def _words(counts: dict[str, int]) -> str:
    return " ".join(f"{name}={count}" for name, count in counts.items())


def _facts(cls: type[LayerSchedule], finalist: Finalist) -> dict[str, Any]:
    numbers = {name: getattr(finalist, name) for name in ("loss", "score", "speedup")}
    return {"counts": _counts(cls, finalist.method), **numbers}
