"""Decoding: prefill, then one token a row and step, with a trace of the layers that really ran.

`decode` is the one way in; `oracle_decode` recomputes everything without a cache: what `decode` is checked against.
"""

from .loop import decode
from .oracle import oracle_decode
from .output import DecodeOutput, Timing

__all__ = ["DecodeOutput", "Timing", "decode", "oracle_decode"]
