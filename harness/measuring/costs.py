"""The cost model: a decode step is a fixed part, layers, heads and keys and values written alone.

Every cost comes from differences between runs of the same round, in which the machine is about as fast for all of them:
full depth and fewer layers give `t_layer`; keys and values written where layers were left out give `t_kv`; an exit rule
asked at every layer gives `t_ask`; the head read at some of them `t_head`, in its place between layers, whose weights
drive it out of the caches. `t_confidence` is the softmax and the two largest probabilities of one check. `t_fixed` is
what is left of a full step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch

from ..decoding.clock import DeviceClock
from .probes import probes
from .rounds import value
from .samples import Trace

Numbers = float | np.ndarray
MODELLED = ("predicted_ms_per_token", "overhead_ms", "speedup_predicted", "speedup_bound")
NO_MODEL = "the cost model holds for steps of one pass and one position, not for methods that guess"


@dataclass(frozen=True)
class Costs:
    """Milliseconds of one decode step's parts at one batch size; numbers, or arrays over rounds."""

    t_layer: Numbers
    t_head: Numbers
    t_kv: Numbers
    t_ask: Numbers
    t_confidence: Numbers
    t_fixed: Numbers

    def moving(self, trace: Trace) -> Numbers:
        """Milliseconds of a method's mean step with t_fixed = 0: what an engine without any fixed cost would take."""
        questions = trace.asks * self.t_ask + (trace.heads - 1) * self.t_confidence
        return trace.layers * self.t_layer + trace.heads * self.t_head + trace.keys_only * self.t_kv + questions

    def predicted(self, trace: Trace) -> Numbers:
        """Milliseconds of a method's mean step."""
        return self.moving(trace) + self.t_fixed


def solve(ms: Mapping[str, Numbers], num_layers: int, confidence: float) -> Costs:
    """The costs from milliseconds a step of the baseline (`full`) and of the probes."""
    methods = probes(num_layers)
    left_out = num_layers - methods["fewer"].depth
    t_layer = (ms["full"] - ms["fewer"]) / left_out
    t_head = (ms["read"] - ms["asked"]) / methods["read"].reads
    return Costs(
        t_layer=t_layer,
        t_head=t_head,
        t_kv=(ms["keys"] - ms["fewer"]) / left_out,
        t_ask=(ms["asked"] - ms["full"]) / (num_layers - 1),
        t_confidence=confidence,
        t_fixed=ms["full"] - num_layers * t_layer - t_head,
    )


class CostModel:
    """Costs of one group and what they predict: medians over its rounds, with intervals.

    `ms` holds milliseconds a step, one a round, of the baseline (`full`), the probes and any number of methods. What a
    round gives is compared within it, and only then are medians taken, as of the speed-ups beside which these stand.
    `doubt`, why the rounds should not be believed, becomes the flag of every value.
    """

    def __init__(
        self, ms: Mapping[str, list[float]], num_layers: int, confidence: float, doubt: str | None = None
    ) -> None:
        self._ms = {key: np.asarray(times, dtype=float) for key, times in ms.items()}
        self._costs = solve(self._ms, num_layers, confidence)
        self._flag = {"flag": doubt} if doubt else {}

    def parts(self) -> dict:
        """Each cost in milliseconds, with its interval."""
        return {f"{name}_ms": self._value(part) for name, part in vars(self._costs).items()}

    def values(self, key: str, trace: Trace, baseline: Trace, guesses: bool = False) -> dict:
        """What the model says of a method: prediction, what it leaves unexplained, and the bound without fixed cost.

        Nothing of one that guesses: its pass takes several positions of a row, and its step several passes or a part of
        one, while the costs are those of a pass of one position, made once a step.
        """
        if guesses:
            return {name: {"value": None, "low": None, "high": None, "note": NO_MODEL} for name in MODELLED}
        costs, predicted = self._costs, self._costs.predicted(trace)
        return {
            "predicted_ms_per_token": self._value(predicted),
            "overhead_ms": self._value(self._ms[key] - predicted),
            "speedup_predicted": self._value(costs.predicted(baseline) / predicted),
            "speedup_bound": self._value(costs.moving(baseline) / costs.moving(trace)),
        }

    def _value(self, samples: Numbers) -> dict:
        """Median with its interval, and the flag if there is a doubt."""
        return value(np.broadcast_to(samples, self._ms["full"].shape)) | self._flag


def confidence_ms(backbone, rows: int, clock: DeviceClock, calls: int = 20) -> float:
    """Milliseconds of softmax and the two largest probabilities on logits [rows, vocabulary]; the median of three."""
    logits = torch.zeros(rows, backbone.lm_head.weight.shape[0], dtype=backbone.compute_dtype, device=backbone.device)
    times = []
    with torch.inference_mode():
        for _ in range(3):
            start = clock.read(backbone.device)
            for _ in range(calls):
                logits.softmax(-1).topk(2, dim=-1)
            times.append(clock.read(backbone.device) - start)
    return 1e3 * float(np.median(times)) / calls
