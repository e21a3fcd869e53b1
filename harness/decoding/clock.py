"""The clock every measurement reads: never before the device has done what was queued on it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch

from ..errors import SkipbenchError


class DeviceClock:
    """Wall-clock seconds of a device. A fake one in tests replaces `synchronize` and `now`."""

    def read(self, device: torch.device) -> float:
        """Seconds now, after everything queued on the device is done."""
        self.synchronize(device)
        return self.now()

    def synchronize(self, device: torch.device) -> None:
        """Wait for the device; a CPU queues nothing. SkipbenchError for a device that cannot be waited for."""
        if device.type == "cpu":
            return
        wait = getattr(getattr(torch, device.type, None), "synchronize", None)
        if wait is None:
            raise SkipbenchError(f"device {device} cannot be waited for, so nothing can be timed on it")
        wait() if device.type == "mps" else wait(device)

    def now(self) -> float:
        """Seconds since some fixed moment."""
        return time.perf_counter()

    def cpu(self, device: torch.device) -> float | None:
        """Seconds that this thread had a processor; None where that tells nothing: on a GPU, and by a fake clock."""
        real = type(self).now is DeviceClock.now
        return time.thread_time() if real and device.type == "cpu" else None


_clock: ContextVar[DeviceClock] = ContextVar("clock", default=DeviceClock())  # noqa: B039 - it has no state


def read_clock(device: torch.device) -> float:
    """Seconds now on the clock in use, after everything queued on the device is done."""
    return _clock.get().read(device)


@contextmanager
def using_clock(clock: DeviceClock) -> Iterator[None]:
    """Let `read_clock` read another clock."""
    token = _clock.set(clock)
    try:
        yield
    finally:
        _clock.reset(token)
