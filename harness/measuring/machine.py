"""The environment record: what a number was measured on. Costs no import of torch where nothing has imported it."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

LIBRARIES = ("torch", "transformers", "skipbench")
CHECKOUT = Path(__file__).resolve().parents[2]


def environment() -> dict:
    """CPU and GPU models, cores, threads, versions, operating system, git commit.

    `gpus` and `threads` are known only once torch is in use, which it is in every process that measures.
    """
    commit, dirty = git_commit()
    return {
        "cpu": cpu_model(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "gpus": _gpus(),
        "threads": _threads(),
        "os": platform.platform(),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in LIBRARIES},
        "commit": commit,
        "dirty": dirty,
    }


def cpu_model() -> str:
    """The processor's name as the operating system gives it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.lower().startswith(("model name", "cpu model")))
    return next(named, "") or platform.processor() or platform.machine() or "unknown"


def git_commit(folder: Path = CHECKOUT) -> tuple[str, bool | None]:
    """(commit, whether tracked files differ from it) of a checkout; ("unknown", None) outside one."""
    commit = _git(folder, "rev-parse", "HEAD")
    if commit is None:
        return "unknown", None
    changes = _git(folder, "status", "--porcelain", "--untracked-files=no")
    return commit.strip(), None if changes is None else bool(changes.strip())


def _git(folder: Path, *arguments: str) -> str | None:
    if not (folder / ".git").exists():  # an installed copy inside somebody else's checkout is not ours
        return None
    try:
        done = subprocess.run(["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=5)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def _gpus() -> list[str]:
    torch = sys.modules.get("torch")
    if torch is None or not torch.cuda.is_available():
        return []
    return [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())]


def _threads() -> int | None:
    torch = sys.modules.get("torch")
    return None if torch is None else torch.get_num_threads()


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
