"""Which weights each method of a timing group is timed on: its own, or where they do not fit together, shared ones."""

from __future__ import annotations

from collections.abc import Sequence

from ..measuring import Entry
from ..measuring.memory import available_memory
from ..measuring.replay import Replay, with_classifier
from ..method import EarlyExit, LayerSchedule, Method
from ..results.reading import load_run
from .quality import Item
from .quality_run import QualityRun

SHARE = 0.8  # of the memory at hand, most that a group's weights may take
COPIES = 1.25  # of a model's bytes: fused layers keep a copy of part of the weights


def fit_together(runs: Sequence[QualityRun]) -> bool:
    """Whether the weights of all runs, of one size, can be in memory at once; the first run's are already."""
    backbone = runs[0].backbone
    free = available_memory(backbone.device)
    if free is None:
        return True
    others = len({str(run.path) for run in runs} - {str(runs[0].path)})
    size = sum(p.numel() * p.element_size() for p in backbone.model.parameters())
    return others * size * COPIES <= SHARE * free


def timed_entry(run: QualityRun, method: Method, shared: QualityRun | None, items: Sequence[Item]) -> Entry:
    """How a run is timed on prompts: with `shared`, on that run's weights wherever its time does not depend on them.

    A schedule's never does. An exit's depends on where it leaves, so it replays its recorded exits, with every check
    still computed. Guessing depends on the weights through and through, and keeps its own.
    """
    if shared is None or not isinstance(method, (LayerSchedule, EarlyExit)):
        return Entry(run.id, run.backbone, method)
    if isinstance(method, LayerSchedule):
        return Entry(run.id, shared.backbone, method)
    return Entry(
        run.id, with_classifier(shared.backbone), Replay(method.num_layers, method, recorded_exits(run, items))
    )


def recorded_exits(run: QualityRun, items: Sequence[Item]) -> tuple[tuple[int, ...], ...]:
    """Layers that the run's record says each item needed, step by step."""
    records = load_run(run.bench.store.root / "runs" / run.id).records()
    needed = {record["id"]: tuple(record["layers_needed"]) for record in records}
    return tuple(needed[item.example.id] for item in items)
