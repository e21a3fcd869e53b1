"""A task that makes its own examples: count down from a number."""

from __future__ import annotations

from harness import Example, Task, register_task

SPLITS = {"train": range(3, 60), "validation": range(60, 70), "test": range(70, 80)}


@register_task("countdown")
class Countdown(Task):
    """`5:` becomes `5 4 3`."""

    metrics = ("rougeL", "length_ratio")

    def load(self, split: str) -> list[Example]:
        return [Example(str(n), {"start": str(n)}, (f"{n} {n - 1} {n - 2}",)) for n in SPLITS[split]]

    def prompt(self, example: Example) -> str:
        return f"{example.fields['start']}:"
