"""What a watcher sees while work goes on: bars in a terminal, plain lines elsewhere."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

LINE_EVERY_S = 10.0


class Reporter:
    """Says what is being done. `quiet` says nothing but what `say` is given."""

    def __init__(self, quiet: bool = False) -> None:
        self.quiet = quiet
        self._bar = None if quiet or not sys.stderr.isatty() else _new_bar()

    def __enter__(self) -> Reporter:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(self, *exc) -> None:
        if self._bar is not None:
            self._bar.stop()

    def say(self, text: str) -> None:
        """A line worth reading."""
        if self._bar is not None:
            self._bar.console.print(text, markup=False, highlight=False)
        elif not self.quiet:
            print(text, file=sys.stderr, flush=True)

    def start(self, title: str) -> Callable[[int, int], None]:
        """A new step; the returned function is told (done, all)."""
        update = self._line(title)
        return lambda done, total: update(done, total, "")

    def training(self, title: str) -> Callable[[int, int, float, float], None]:
        """A training run; the returned function is told (step, steps, loss, tokens/s)."""
        update = self._line(title)
        return lambda step, steps, loss, rate: update(step, steps, f"loss {loss:.3f}, {rate:,.0f} tokens/s")

    def _line(self, title: str) -> Callable[[int, int, str], None]:
        if self._bar is not None:
            return _bar_line(self._bar, title)
        return _nothing if self.quiet else _text_line(title)


def _nothing(done: int, total: int, note: str) -> None:
    pass


def _text_line(title: str) -> Callable[[int, int, str], None]:
    """A line now and then, and always the last."""
    last = time.monotonic()

    def update(done: int, total: int, note: str) -> None:
        nonlocal last
        now = time.monotonic()
        if done >= total or now - last >= LINE_EVERY_S:
            last = now
            print(f"{title}: {done}/{total}{f', {note}' if note else ''}", file=sys.stderr, flush=True)

    return update


def _bar_line(bar, title: str) -> Callable[[int, int, str], None]:
    number = bar.add_task(title, total=None, note="")

    def update(done: int, total: int, note: str) -> None:
        bar.update(number, completed=done, total=total, note=note)
        if done >= total:
            bar.remove_task(number)
            bar.console.print(f"{title}: done{f', {note}' if note else ''}", markup=False, highlight=False)

    return update


def _new_bar():
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[note]}"),
        TimeElapsedColumn(),
    )
    return Progress(*columns, console=Console(stderr=True), transient=True)
