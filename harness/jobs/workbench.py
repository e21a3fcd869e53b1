"""What the jobs of one process share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ..backbone import Backbone
from ..results import Store
from ..training import Checkpoints

# tick(done, all): how far the present step of a job is; say(text): a line worth reading
Tick = Callable[[int, int], None]


@dataclass
class Workbench:
    """What jobs share: the open store, the checkpoints, and whoever watches."""

    store: Store | None  # None where nothing is recorded
    checkpoints: Checkpoints
    start: Callable[[str], Tick] = lambda title: lambda done, total: None
    say: Callable[[str], None] = lambda text: None
    _loaded: dict[tuple, Backbone] = field(default_factory=dict)

    def load(self, path: str, name: str, dtype: str, device: str) -> Backbone:
        """A model; the last few stay in memory."""
        key = (path, dtype, device)
        if key not in self._loaded:
            while len(self._loaded) >= 2:
                del self._loaded[next(iter(self._loaded))]
            self._loaded[key] = Backbone.load(path, dtype, device)
            self._loaded[key].name = name
        return self._loaded[key]
