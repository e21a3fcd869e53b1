"""Peak memory of one call, from a fresh start (what earlier calls left or reached does not count), and what is left."""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable
from pathlib import Path

import torch

_STATUS, _CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")
_SYSTEM = Path("/proc/meminfo")
_RESET_PEAK = "5"  # proc(5): resets the peak resident set size


def peak_memory(call: Callable[[], object], device: torch.device) -> int | None:
    """Bytes `call` held at its peak above what was held before it; None where the system does not tell.

    On CUDA what the allocator handed out; on Linux the resident set of the process, which the kernel counts to within
    some hundred KiB.
    """
    if device.type == "cuda":
        return _cuda_peak(call, device)
    if device.type != "cpu" or not _reset_resident_peak():
        call()
        return None
    before = _status("VmRSS")
    call()
    return max(0, _status("VmHWM") - before)


def available_memory(device: torch.device) -> int | None:
    """Bytes that can still be had on a device; None where the system does not tell."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    if device.type != "cpu" or not _SYSTEM.exists():
        return None
    line = next((line for line in _SYSTEM.read_text().splitlines() if line.startswith("MemAvailable:")), None)
    return None if line is None else int(line.split()[1]) * 1024


def _cuda_peak(call: Callable[[], object], device: torch.device) -> int:
    torch.cuda.synchronize(device)
    torch.cuda.reset_peak_memory_stats(device)
    before = torch.cuda.memory_allocated(device)
    call()
    torch.cuda.synchronize(device)
    return torch.cuda.max_memory_allocated(device) - before


def _reset_resident_peak() -> bool:
    with contextlib.suppress(OSError, AttributeError):  # another C library keeps memory in its own way
        ctypes.CDLL(None).malloc_trim(0)  # freed memory that the allocator kept would hide what the call takes
    try:
        _CLEAR.write_text(_RESET_PEAK)
    except OSError:
        return False
    return True


def _status(field: str) -> int:
    line = next(line for line in _STATUS.read_text().splitlines() if line.startswith(field + ":"))
    return int(line.split()[1]) * 1024
