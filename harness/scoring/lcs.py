"""The longest common subsequence of two token lists, by bits instead of a table."""

from __future__ import annotations

from collections.abc import Hashable, Sequence


def lcs_length(first: Sequence[Hashable], second: Sequence[Hashable]) -> int:
    """Length of the longest common subsequence.

    Hyyrö (2004): bit i of `row` is 0 where the length grows at first[i], so one addition does a whole row of the table.
    """
    positions: dict[Hashable, int] = {}
    for index, token in enumerate(first):
        positions[token] = positions.get(token, 0) | 1 << index
    everything = (1 << len(first)) - 1
    row = everything
    for token in second:
        matches = row & positions.get(token, 0)
        row = (row + matches) | (row - matches)
    return len(first) - (row & everything).bit_count()
