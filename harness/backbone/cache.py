"""Keys and values when layers skip positions: the plan cache.

Every row has its own length; slot s of a row holds its position s, whatever padding stood before it. A layer's buffer
ends at the last position its plan can run, so skipping saves memory. Running a layer whose history has a hole raises.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor
from transformers.cache_utils import Cache

from ..errors import SkipbenchError

_NO_HOLE = sys.maxsize


class MissingKV(SkipbenchError):
    """A layer was to run at a position although it holds no keys and values for an earlier one of the same row."""

    def __init__(self, layer: int, position: int) -> None:
        self.layer, self.position = layer, position
        super().__init__(
            f"layer {layer} has no keys and values at position {position}, which was decoded without it; a method with "
            "kv_policy 'closed' may only run layers that ran at every earlier position"
        )


class KeysWritten(Exception):
    """Ends a layer right after it wrote its keys and values (KV_ONLY)."""


class PlanCache(Cache):
    """Preallocated keys and values, written in place; a `transformers` cache for one prompt and its decode steps.

    Args:
        lengths: prompt length of each row, in tokens.
        capacities: for each layer, how many positions its buffer holds.
    """

    def __init__(self, lengths: Sequence[int], capacities: Sequence[int], device: torch.device | str = "cpu") -> None:
        super().__init__(layers=[])
        self.device = torch.device(device)
        self.capacities = list(capacities)
        self.lengths = [0] * len(lengths)  # positions held by a row before the current pass
        self.pairs: list[Tensor | None] = [None] * len(self.capacities)  # [2, rows, heads, slots, head width]
        self.keys_only = False  # KV_ONLY: stop the layer at its update
        self._holes: list[list[int] | None] = [None] * len(self.capacities)  # first missing position, per row
        self._begin([int(n) for n in lengths])

    # -- one pass ---------------------------------------------------------------------------------------------------

    def _begin(self, tokens: Sequence[int]) -> None:
        """Announce a pass that adds `tokens[row]` positions to each row."""
        self._adding = list(tokens)
        self._written: set[int] = set()
        self.end = max((a + b for a, b in zip(self.lengths, tokens, strict=True)), default=0)  # key slots in sight
        self.uniform = len(set(self.lengths)) == 1 and len(set(tokens)) == 1  # all rows alike before and after the pass
        self._index = None

    def begin_step(self, tokens: int | Sequence[int] = 1) -> None:
        """Announce a pass that adds `tokens` positions to every row, or so many to each; a row may get none."""
        self._begin([tokens] * len(self.lengths) if isinstance(tokens, int) else tokens)

    def keep(self, layers: Iterable[int]) -> None:
        """In this pass the layers write nothing: what they hold at its positions, from before a rollback, counts."""
        self._written.update(layers)

    def commit(self) -> None:
        """End a pass: lengths grow; layers that wrote nothing get a hole at the positions just added."""
        for layer, holes in enumerate(self._holes):
            if layer not in self._written:
                fresh = list(self.lengths)
                self._holes[layer] = fresh if holes is None else [min(h, f) for h, f in zip(holes, fresh, strict=True)]
        self.lengths = [n + a for n, a in zip(self.lengths, self._adding, strict=True)]

    def check_history(self, layer: int) -> None:
        """Raise MissingKV if the layer lacks an earlier position of any row."""
        holes = self._holes[layer]
        if holes is not None:
            missing = [h for h, n in zip(holes, self.lengths, strict=True) if h < n]
            if missing:
                raise MissingKV(layer, min(missing))

    def holds(self, layer: int, row: int) -> int:
        """How many positions of a row, from the first on, the layer holds without a hole."""
        if self.pairs[layer] is None:
            return 0
        holes = self._holes[layer]
        return self.lengths[row] if holes is None else min(holes[row], self.lengths[row])

    # -- the interface of a transformers cache ----------------------------------------------------------------------

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args, **kwargs
    ) -> tuple[Tensor, Tensor]:
        """Write keys and values [rows, heads, tokens, head width]; returns those in sight, [rows, heads, slots, …]."""
        room = self._room(layer_idx, key_states)
        self._put(room[0], key_states)
        self._put(room[1], value_states)
        return self._written_to(layer_idx, room)

    def write(self, states: Tensor, layer: int) -> tuple[Tensor, Tensor]:
        """`update` of keys and values in one tensor, [2, rows, heads, tokens, head width]."""
        room = self._room(layer, states[0])
        self._put(room, states)
        return self._written_to(layer, room)

    @property
    def keys(self) -> list[Tensor | None]:
        """Each layer's buffer of keys, [rows, heads, slots, head width]; None before its first."""
        return [None if pair is None else pair[0] for pair in self.pairs]

    @property
    def values(self) -> list[Tensor | None]:
        """Each layer's buffer of values, like `keys`."""
        return [None if pair is None else pair[1] for pair in self.pairs]

    def get_seq_length(self, layer_idx: int = 0, *args, **kwargs) -> int:
        """Key slots in sight before the pass's own columns."""
        return self.end - max(self._adding, default=0)

    def get_mask_sizes(self, query_length: int, layer_idx: int = 0, *args, **kwargs) -> tuple[int, int]:
        """Number of key slots in sight, and their offset."""
        return self.end, 0

    # -- rows -------------------------------------------------------------------------------------------------------

    def select(self, rows: Sequence[int]) -> None:
        """Keep `rows`, in this order; a row may be repeated. Only rows that move are copied."""
        rows = [int(r) for r in rows]
        self._grow_rows(len(rows))
        moved = [(new, old) for new, old in enumerate(rows) if new != old]
        if moved:
            new, old = (torch.tensor(side, device=self.device) for side in zip(*moved, strict=True))
            for pair in self.pairs:
                if pair is not None:
                    pair[:, new] = pair[:, old]  # the right side is gathered first, so overlaps are safe
        self.lengths = [self.lengths[r] for r in rows]
        self._holes = [None if h is None else [h[r] for r in rows] for h in self._holes]
        self.begin_step()

    def rollback(self, row_lengths: Sequence[int]) -> None:
        """Forget every position from `row_lengths[row]` on; what was forgotten is written again when it returns."""
        new = [int(n) for n in row_lengths]
        if len(new) != len(self.lengths) or any(not 0 <= n <= old for n, old in zip(new, self.lengths, strict=True)):
            raise SkipbenchError(f"cannot roll rows of lengths {self.lengths} back to {new}")
        self.lengths = new
        for layer, holes in enumerate(self._holes):
            if holes is not None:  # a hole that was rolled back is gone, row by row
                holes = [h if h < n else _NO_HOLE for h, n in zip(holes, new, strict=True)]
                self._holes[layer] = None if min(holes, default=_NO_HOLE) == _NO_HOLE else holes
        self.begin_step()

    @property
    def nbytes(self) -> int:
        """Bytes allocated for keys and values."""
        return sum(pair.numel() * pair.element_size() for pair in self.pairs if pair is not None)

    # -- buffers ----------------------------------------------------------------------------------------------------

    def _room(self, layer: int, states: Tensor) -> Tensor:
        """Where the layer keeps `states` [rows, heads, tokens, head width]: [2, rows, heads, slots, head width]."""
        rows, heads, _, width = states.shape  # the first rows of the cache; the others add nothing in this pass
        pair = self.pairs[layer]
        if pair is None:
            slots = max(self.capacities[layer], self.end)
            pair = self.pairs[layer] = states.new_zeros(2, len(self.lengths), heads, slots, width)
        if self.end > pair.shape[3]:
            raise SkipbenchError(
                f"layer {layer} was promised to end at position {pair.shape[3]} but runs at {self.end - 1}; the "
                "method's layers changed between two calls"
            )
        return pair if pair.shape[1] == rows else pair[:, :rows]  # it is longer once rows have left the batch

    def _written_to(self, layer: int, room: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values in sight, now that the layer has written; KeysWritten if no more was asked of it."""
        self._written.add(layer)
        if self.keys_only:
            raise KeysWritten
        return room.narrow(3, 0, self.end).unbind(0)

    def _grow_rows(self, rows: int) -> None:
        for layer, old in enumerate(self.pairs):
            if old is not None and old.shape[1] < rows:
                self.pairs[layer] = old.new_zeros(2, rows, *old.shape[2:])
                self.pairs[layer][:, : old.shape[1]] = old

    def _put(self, room: Tensor, states: Tensor) -> None:
        """Scatter [..., rows, heads, tokens, width] to (row, length); padding before a row's tokens is left out."""
        tokens = states.shape[-2]
        if self.uniform and tokens == self._adding[0]:
            room.narrow(-2, self.lengths[0], tokens).copy_(states)
            return
        if self._index is None:
            self._index = self._scatter_index(tokens)
        row, slot, column = self._index
        room[..., row, :, slot, :] = states[..., row, :, column, :]

    def _scatter_index(self, tokens: int) -> tuple[Tensor, Tensor, Tensor]:
        """Row, slot and column of every token of the pass that is no padding."""
        triples = [
            (row, length + i, tokens - adding + i)
            for row, (length, adding) in enumerate(zip(self.lengths, self._adding, strict=True))
            for i in range(adding)
        ]
        return torch.tensor(triples, device=self.device).unbind(1)
