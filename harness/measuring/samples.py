"""One timed decode call: its seconds, and from its trace what was counted."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..decoding import DecodeOutput
from ..method import EarlyExit, LayerSchedule, Method

QUIET = 0.9  # share of a call for which the thread must have had a processor


@dataclass(frozen=True)
class Sample:
    """Seconds of one decode call: the prompt (to the first output token), the decode steps, and the whole call.

    `cpu_share` is the part of the call in which the measuring thread had a processor; None where none is needed.
    """

    prefill_s: float
    decode_s: float
    call_s: float
    cpu_share: float | None = None

    @property
    def disturbed(self) -> bool:
        """Whether something else took the processor away for long: what was measured is then not the method."""
        return self.cpu_share is not None and self.cpu_share < QUIET

    @property
    def first_token_s(self) -> float:
        """From the call to the first output token, with everything set up before it."""
        return self.call_s - self.decode_s


@dataclass(frozen=True)
class Trace:
    """What one decode call ran. The four counts are means over its decode steps, of the batch as a whole.

    `layers` ran, `keys_only` wrote keys and values alone, `heads` were read (the last one included), and an exit rule
    was asked after `asks` layers. `needed` is the mean number of layers a row needed. `tokens` are the output tokens
    of all rows, each counted to its EOS; `kv_bytes` were allocated for keys and values. `acceptance` is the share of
    guesses that were right, None where nothing was guessed: a speculative method's step, one output token of the
    longest row, may take a fraction of a pass of the body or several, and each pass reads the head once.
    """

    steps: int
    rows: int
    tokens: int
    layers: float
    keys_only: float
    heads: float
    asks: float
    needed: float
    kv_bytes: int
    acceptance: float | None = None

    @classmethod
    def of(cls, out: DecodeOutput, method: Method) -> Trace:
        """Count the trace of a call."""
        ran = np.array([len(layers) for layers in out.layers_run], dtype=float)
        passes = len(ran) / out.timing.steps if out.timing.steps else 1.0  # a decode step
        checks = np.array(out.head_checks, dtype=float)
        closed = method.kv_policy == "closed"
        asks = np.minimum(ran, method.num_layers - 1) if isinstance(method, EarlyExit) else 0 * ran
        needed = out.layers_needed[out.layers_needed > 0].double()
        return cls(
            steps=out.timing.steps,
            rows=len(out.lengths),
            tokens=int(out.lengths.sum()),
            layers=_mean(ran) * passes,
            keys_only=0.0 if closed else _mean(method.num_layers - ran),
            heads=(1 + _mean(checks)) * passes,
            asks=_mean(asks),
            needed=float(needed.mean()) if len(needed) else 0.0,
            kv_bytes=out.kv_bytes,
            acceptance=_acceptance(out),
        )


def kv_bytes_by_step(out: DecodeOutput, method: Method, longest_prompt: int, new_tokens: int) -> list[float]:
    """Bytes that hold keys and values after each decode step; prompts and outputs of up to so many tokens.

    A layer's share grows until the last step at which its plan runs it; what was allocated ahead counts once it is
    reached.
    """
    planned = new_tokens - 1
    if isinstance(method, LayerSchedule) and method.kv_policy == "closed":
        last = dict.fromkeys(out.prompt_layers, 0)
        last |= {layer: step for step, layers in enumerate(method.plan(planned), start=1) for layer in layers}
    else:
        last = dict.fromkeys(range(method.num_layers), planned)
    slots = sum(longest_prompt + step for step in last.values())
    held = [sum(longest_prompt + min(step, end) for end in last.values()) for step in range(1, out.timing.steps + 1)]
    return [out.kv_bytes * n / slots for n in held]


def _acceptance(out: DecodeOutput) -> float | None:
    guesses = 0 if out.speculation is None else int(out.speculation.guesses.sum())
    return int(out.speculation.accepted.sum()) / guesses if guesses else None


def _mean(numbers) -> float:
    return float(np.mean(numbers)) if len(numbers) else 0.0
