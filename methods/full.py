"""All layers at every step: the baseline of every ratio."""

from __future__ import annotations

from dataclasses import dataclass

from harness import LayerSchedule, register_method


@register_method("full")
@dataclass(frozen=True)
class Full(LayerSchedule):
    """The whole model."""

    def layers(self, step: int) -> range:
        return range(self.num_layers)
