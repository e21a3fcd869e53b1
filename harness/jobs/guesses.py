"""What speaks for a method that guesses, whose layers are as many as the model's or more: guesses, passes, reads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..measuring.reads import Reads
from ..scoring.statistics import Statistics, ratio


def guessed(records: Sequence[dict]) -> bool:
    """Whether the records are those of a method that guesses."""
    return "guesses" in records[0]


def guess_statistics(records: Sequence[dict], reads: Reads) -> dict[str, Statistics]:
    """Per output token, decode steps only, ratios of sums over the split."""
    steps = [len(r["layers_needed"]) for r in records]
    passes = [len(r["layers_run"]) for r in records]
    layers = [sum(r["layers_run"]) for r in records]
    weights = np.array(passes) * reads.head + np.array(layers) * reads.layer
    columns = {
        "acceptance_rate": ([r["accepted"] for r in records], [r["guesses"] for r in records], "right guesses over all "
                            "whose true token became known"),
        "passes_per_token": (passes, steps, "passes of the body a row took part in over its decode steps"),
        "weight_reads_per_token": (weights, steps, "weights of layers and heads in those passes over decode steps"),
    }  # fmt: skip
    return {
        name: Statistics(np.stack([np.asarray(top, float), np.asarray(bottom, float)], 1), ratio, note)
        for name, (top, bottom, note) in columns.items()
    }
