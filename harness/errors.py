"""Errors for people: what is wrong, which value, what to do.

`UsageError` is the caller's to mend (exit code 2); any other `SkipbenchError` is a run that failed (exit code 1).
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path


class SkipbenchError(Exception):
    """A failure whose message is written for people; the command line prints it without a traceback."""

    exit_code = 1


class UsageError(SkipbenchError):
    """Something the caller asked for cannot be done as asked."""

    exit_code = 2


class JobsFailed(SkipbenchError):
    """Some jobs of a suite failed; what the others recorded lies in `root`, with a report of it."""

    def __init__(self, message: str, root: Path):
        super().__init__(message)
        self.root = root


def unknown(kind: str, name: object, options: Iterable[str]) -> UsageError:
    """The error for a name that is none of `options`, with the nearest valid ones."""
    options = sorted(options)
    close = difflib.get_close_matches(str(name).lower(), options, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(close)}?" if close else f"choose from: {', '.join(options) or '(none)'}"
    return UsageError(f"unknown {kind} {name!r}; {hint}")
