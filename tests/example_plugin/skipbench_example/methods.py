"""A schedule and an early exit."""

from __future__ import annotations

from dataclasses import dataclass

from harness import EarlyExit, LayerSchedule, register_method


@register_method("every_third")
@dataclass(frozen=True)
class EveryThird(LayerSchedule):
    """Every third layer and the last, at every step."""

    def layers(self, step: int) -> list[int]:
        return sorted({*range(0, self.num_layers, 3), self.num_layers - 1})


@register_method("patient_exit")
@dataclass(frozen=True)
class PatientExit(EarlyExit):
    """Leave when the head is `confident` about its first choice; the later the step, the sooner."""

    confident: float = 0.9
    hurry: float = 0.1

    search = ("confident", 0.0, 1.0)

    def should_exit(self, layer: int, state):
        bar = self.confident - self.hurry * state.step / max(state.max_steps, 1)
        return state.logits().softmax(-1).amax(-1) >= bar
