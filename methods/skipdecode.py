"""SkipDecode: an exit point that falls with the position, lower-to-middle layers bypassed (arXiv 2307.02628)."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar, Literal

from harness import LayerSchedule, register_method
from harness.errors import UsageError
from harness.method import Lengths

CANDIDATE_MARGIN = 0.03  # relative distance from the target within which a candidate is worth ranking


@register_method("skipdecode")
@dataclass(frozen=True)
class SkipDecode(LayerSchedule):
    """One budget of layers a position, shared by the batch and never rising.

    Position p of decode step t is `prompt_size` + t - 1 whatever the row's own prompt length (our deviation: the
    authors count absolute positions, which would let batch mates disagree). The budget falls from `max_layers` to
    `min_layers` (both counts of layers run, warm-up included) until `max_length`, and stays there. Of a budget B the
    `warmup` bottom layers and the top B - warmup run; the block between is bypassed.

    `decay="power"` replaces the line by min + (max - min)(1 - u)^gamma; `mode="terminate"` runs the bottom B layers.
    `schedule="ramp"` is AdaSkip's training-free form of the baseline: `skip_layers` in the end, over `horizon` steps.
    """

    min_layers: int | None = None
    max_layers: int | None = None
    prompt_size: int = 0
    max_length: int = 64
    warmup: int = 1
    decay: Literal["linear", "power"] = "linear"
    gamma: float = 2.0
    mode: Literal["skip", "terminate"] = "skip"
    schedule: Literal["budget", "ramp"] = "budget"
    skip_layers: int = 0
    horizon: int = 512

    speed_parameters: ClassVar = ("min_layers", "max_layers", "skip_layers")
    tuned_counts: ClassVar = ("min_layers", "max_layers")  # counts of layers that `tune` chooses

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.schedule == "ramp":
            if not 0 <= self.skip_layers < self.num_layers:
                raise UsageError(
                    f"skipdecode: skip_layers must lie in 0..{self.num_layers - 1}, not {self.skip_layers}"
                )
            if self.horizon < 1:
                raise UsageError(f"skipdecode: horizon must be at least 1, not {self.horizon}")
            return
        if self.min_layers is None or self.max_layers is None:
            raise UsageError("skipdecode: give min_layers and max_layers, or a target speed-up")
        if not 0 <= self.warmup <= self.min_layers <= self.max_layers <= self.num_layers or self.min_layers < 1:
            raise UsageError(
                f"skipdecode: needs 0 <= warmup <= min_layers <= max_layers <= {self.num_layers} and min_layers >= 1, "
                f"not warmup={self.warmup} min_layers={self.min_layers} max_layers={self.max_layers}"
            )
        if self.prompt_size < 0 or self.max_length < self.prompt_size or not self.gamma > 0:
            raise UsageError(
                f"skipdecode: needs 0 <= prompt_size <= max_length and gamma > 0, not prompt_size={self.prompt_size} "
                f"max_length={self.max_length} gamma={self.gamma}"
            )

    @classmethod
    def for_target(cls, num_layers: int, target: float, lengths: Lengths | None = None, **parameters) -> SkipDecode:
        """(min, max) whose mean budget over the horizon meets the target; P and M from the training lengths."""
        if parameters.get("schedule") == "ramp":
            raise UsageError("skipdecode: schedule='ramp' takes skip_layers, not a target speed-up")
        if lengths is not None:
            parameters = cls.with_lengths(parameters, lengths)
        pairs = candidates(num_layers, target, parameters)
        return cls(num_layers, **{**parameters, "min_layers": pairs[0][0], "max_layers": pairs[0][1]})

    @staticmethod
    def with_lengths(parameters: dict, lengths: Lengths) -> dict:
        """The parameters with P and M, where they are not given, from the training lengths."""
        prompt = parameters.get("prompt_size", lengths.prompt)
        return {"prompt_size": prompt, "max_length": prompt + lengths.output, **parameters}

    @classmethod
    def tuning_candidates(cls, num_layers: int, target: float, lengths: Lengths, **parameters) -> list[SkipDecode]:
        """Every (min, max) whose speed-up over the training outputs is within 3 % of the target, nearest first.

        The speed-up is the expected ratio of sums: a layer run counts as often as training outputs reach its step. If
        fewer than three come that near, the nearest three.
        """
        parameters = cls.with_lengths(parameters, lengths)
        methods = [
            cls(num_layers, **{**parameters, "min_layers": low, "max_layers": high})
            for low in range(max(1, parameters.get("warmup", 1)), num_layers + 1)
            for high in range(low, num_layers + 1)
        ]
        outputs = reaching(lengths)
        errors = [abs(expected_speedup(method, outputs) / target - 1) for method in methods]
        order = sorted(range(len(methods)), key=errors.__getitem__)
        near = sum(error <= CANDIDATE_MARGIN for error in errors)
        return [methods[i] for i in order[: max(near, 3)]]

    def budget(self, step: int) -> int:
        """Layers run at decode step `step`."""
        position = self.prompt_size + step - 1
        u = (position - self.prompt_size) / max(self.max_length - self.prompt_size - 1, 1)
        u = min(max(u, 0.0), 1.0)
        if self.decay == "power":
            return round(self.min_layers + (self.max_layers - self.min_layers) * (1 - u) ** self.gamma)
        return round((1 - u) * self.max_layers + u * self.min_layers)

    def layers(self, step: int) -> list[int]:
        if self.schedule == "ramp":
            return self._ramp_layers(step)
        budget = self.budget(step)
        if self.mode == "terminate":
            return list(range(budget))
        top = budget - self.warmup
        return [*range(self.warmup), *range(self.num_layers - top, self.num_layers)]

    def _ramp_layers(self, step: int) -> list[int]:
        if self.skip_layers == 0:
            return list(range(self.num_layers))
        count, in_the_end = step - 1, self.skip_layers
        skipped = min(in_the_end, -(-count * (in_the_end - 1) // self.horizon) + 1)
        return [0, *range(1 + skipped, self.num_layers)]


def reaching(lengths: Lengths) -> list[int]:
    """How many training outputs have a decode step 1, 2, …"""
    ends = Counter(length - 1 for length in lengths.outputs or (lengths.output,))
    alive = [ends.total()]
    for step in range(max(ends)):
        alive.append(alive[-1] - ends[step])
    return alive[1:]


def expected_speedup(method: SkipDecode, outputs: list[int]) -> float:
    """Layers of the full model over layers run, as a ratio of sums over `outputs` that have step 1, 2, …"""
    ran = sum(count * method.budget(step) for step, count in enumerate(outputs, start=1))
    return method.num_layers * sum(outputs) / ran if ran else 1.0


def candidates(num_layers: int, target: float, parameters: dict) -> list[tuple[int, int]]:
    """All (min, max), best first: mean budget over the horizon nearest N/target, then a spread nearest the mean."""
    warmup = parameters.get("warmup", 1)
    wanted = num_layers / target
    ranked = []
    for low in range(max(1, warmup), num_layers + 1):
        for high in range(low, num_layers + 1):
            method = SkipDecode(num_layers, **{**parameters, "min_layers": low, "max_layers": high})
            steps = max(method.max_length - method.prompt_size, 1)
            mean = sum(method.budget(step) for step in range(1, steps + 1)) / steps
            ranked.append((round(abs(mean - wanted) / wanted, 3), abs(high - low - wanted), low, high))
    if not ranked:
        raise UsageError(f"skipdecode: warmup={warmup} does not fit {num_layers} layers")
    return [(low, high) for _, _, low, high in sorted(ranked)]
