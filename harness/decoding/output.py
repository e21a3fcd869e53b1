"""What decoding returns."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Timing:
    """Seconds of one `decode` call: the prefill (to the first output token) and the `steps` decode steps after it."""

    prefill_s: float
    decode_s: float
    steps: int


@dataclass(frozen=True)
class Speculation:
    """What guessing did in each row of a batch, all [batch].

    Attributes:
        guesses: guesses whose true token became known.
        accepted: those that were right.
        passes: passes of the body from the row's first decode step to its end: the first so many of `layers_run`.
    """

    guesses: Tensor
    accepted: Tensor
    passes: Tensor


@dataclass(frozen=True)
class DecodeOutput:
    """Output tokens of a batch and the trace of what ran.

    Attributes:
        tokens: [batch, steps], output tokens, the pad id after a row's end.
        lengths: [batch], output tokens of each row, to and including EOS.
        layers_needed: [batch, decode steps], layers each row needed, 0 after its end.
        layers_run: for each decode step the indices of the layers the batch ran (keys-and-values-only not among them);
            of a speculative method for each pass of the body, of which there may be fewer or more than decode steps.
            The shared layers of a pipeline count once a pass, as those of the first cycle.
        prompt_layers: indices of the layers the prompt ran, in the prefill.
        head_checks: for each entry of `layers_run` how often an exit rule read the head.
        timing: seconds of prefill and decoding.
        kv_bytes: bytes allocated for keys and values.
        ended: [batch], whether the row ended with EOS.
        speculation: what guessing did; None for methods that do not guess.
    """

    tokens: Tensor
    lengths: Tensor
    layers_needed: Tensor
    layers_run: list[list[int]]
    prompt_layers: list[int]
    head_checks: list[int]
    timing: Timing
    kv_bytes: int
    ended: Tensor
    speculation: Speculation | None = None


class Recorder:
    """Collects tokens and trace while a batch decodes; rows may leave the batch on the way.

    During decoding only references are kept; `output` makes tensors of them.
    """

    def __init__(self, batch: int, pad_id: int, device: torch.device) -> None:
        self.batch, self.pad_id, self.device = batch, pad_id, device
        self.layers_run: list[list[int]] = []
        self.head_checks: list[int] = []
        self._tokens: list[tuple[Tensor, Tensor]] = []  # rows still in the batch, and their tokens, one a step
        self._needed: list[tuple[Tensor, int | Tensor]] = []
        self._ended: list[Tensor] = []

    def add_tokens(self, rows: Tensor, tokens: Tensor) -> None:
        """One more output token [rows] for the rows still in the batch."""
        self._tokens.append((rows, tokens))

    def add_step(self, rows: Tensor, needed: int | Tensor, ran: list[int], head_checks: int) -> None:
        """The trace of one decode step."""
        self._needed.append((rows, needed))
        self.layers_run.append(ran)
        self.head_checks.append(head_checks)

    def end(self, rows: Tensor) -> None:
        """Rows that have produced EOS."""
        self._ended.append(rows)

    def output(self, prompt_layers: list[int], timing: Timing, kv_bytes: int) -> DecodeOutput:
        """Everything collected."""
        lengths = torch.zeros(self.batch, dtype=torch.long, device=self.device)
        for rows, _ in self._tokens:
            lengths[rows] += 1
        ended = torch.zeros(self.batch, dtype=torch.bool, device=self.device)
        for rows in self._ended:
            ended[rows] = True
        return DecodeOutput(
            tokens=self._table(self._tokens, self.pad_id),
            lengths=lengths,
            layers_needed=self._table(self._needed, 0),
            layers_run=self.layers_run,
            prompt_layers=prompt_layers,
            head_checks=self.head_checks,
            timing=timing,
            kv_bytes=kv_bytes,
            ended=ended,
        )

    def _table(self, columns: list[tuple[Tensor, int | Tensor]], fill: int) -> Tensor:
        """[batch, columns], `fill` where a row was no longer in the batch."""
        table = torch.full((self.batch, len(columns)), fill, dtype=torch.long, device=self.device)
        for column, (rows, values) in enumerate(columns):
            table[rows, column] = values
        return table
