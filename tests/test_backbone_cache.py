"""The plan cache against a plain dictionary: (layer, row, position) -> value."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.backbone import KeysWritten, MissingKV, PlanCache
from harness.errors import SkipbenchError

LAYERS = 3


class Plain:
    """What the cache must hold, with nothing clever about it."""

    def __init__(self, lengths: list[int]) -> None:
        self.lengths, self.values = [0] * len(lengths), {}
        self.number = 0.0

    def step(self, cache: PlanCache, adding: list[int], layers: set[int]) -> None:
        """One pass: the layers whose history is whole write numbers never seen before."""
        columns = max(adding)
        for layer in layers:
            missing = self.missing(layer)
            if missing is not None:
                with pytest.raises(MissingKV) as caught:
                    cache.check_history(layer)
                assert (caught.value.layer, caught.value.position) == (layer, missing)
                continue
            cache.check_history(layer)
            states = torch.full((len(adding), 1, columns, 1), -1.0)  # -1 marks padding, which must not be written
            for row, count in enumerate(adding):
                for i in range(count):
                    self.number += 1
                    states[row, 0, columns - count + i] = self.number
                    self.values[layer, row, self.lengths[row] + i] = self.number
            if layer == 0:
                keys, values = cache.update(states, -states, layer)
            else:
                keys, values = cache.write(torch.stack((states, -states)), layer)
            assert torch.equal(keys, -values)
            self.check_row_values(layer, keys, [n + a for n, a in zip(self.lengths, adding, strict=True)])
        self.lengths = [n + a for n, a in zip(self.lengths, adding, strict=True)]
        cache.commit()

    def check_row_values(self, layer: int, keys: torch.Tensor, lengths: list[int]) -> None:
        for row, length in enumerate(lengths):
            assert keys[row, 0, :length, 0].tolist() == [self.values[layer, row, p] for p in range(length)]

    def missing(self, layer: int) -> int | None:
        """The first position that a layer lacks in any row."""
        firsts = [next((p for p in range(n) if (layer, r, p) not in self.values), None) for r, n in self.rows()]
        return min((p for p in firsts if p is not None), default=None)

    def rows(self):
        return enumerate(self.lengths)

    def rollback(self, cache: PlanCache, lengths: list[int]) -> None:
        cache.rollback(lengths)
        self.lengths = lengths
        self.values = {(k, r, p): v for (k, r, p), v in self.values.items() if p < lengths[r]}

    def select(self, cache: PlanCache, rows: list[int]) -> None:
        cache.select(rows)
        self.lengths = [self.lengths[r] for r in rows]
        self.values = {
            (k, new, p): self.values[k, old, p]
            for new, old in enumerate(rows)
            for (k, r, p) in list(self.values)
            if r == old
        }

    def check(self, cache: PlanCache) -> None:
        assert cache.lengths == self.lengths
        for layer in range(LAYERS):
            for row, length in self.rows():
                held = next((p for p in range(length) if (layer, row, p) not in self.values), length)
                assert cache.holds(layer, row) == held
                if cache.keys[layer] is not None:
                    expected = [self.values[layer, row, p] for p in range(held)]
                    assert cache.keys[layer][row, 0, :held, 0].tolist() == expected
                    assert cache.values[layer][row, 0, :held, 0].tolist() == [-v for v in expected]


@settings(max_examples=120, deadline=None, derandomize=True)
@given(data=st.data())
def test_the_cache_is_a_dictionary(data):
    lengths = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    cache, plain = PlanCache(lengths, [40] * LAYERS), Plain(lengths)
    layer_sets = st.sets(st.integers(0, LAYERS - 1))
    plain.step(cache, lengths, data.draw(layer_sets))
    plain.check(cache)
    for _ in range(data.draw(st.integers(0, 8))):
        size = len(plain.lengths)
        action = data.draw(st.sampled_from(["step", "step", "tokens", "rollback", "select"]))
        if action == "rollback":
            plain.rollback(cache, [data.draw(st.integers(max(n - 3, 0), n)) for n in plain.lengths])
        elif action == "select":
            plain.select(cache, data.draw(st.lists(st.integers(0, size - 1), min_size=1, max_size=5)))
        else:
            tokens = 1 if action == "step" else data.draw(st.integers(1, 3))
            cache.begin_step(tokens)
            plain.step(cache, [tokens] * size, data.draw(layer_sets))
        plain.check(cache)


def test_a_hole_that_was_rolled_back_is_gone_row_by_row():
    cache, plain = PlanCache([3, 5], [20] * LAYERS), Plain([3, 5])
    plain.step(cache, [3, 5], {0, 1, 2})
    cache.begin_step()
    plain.step(cache, [1, 1], {0})  # layers 1 and 2 lack position 3 of row 0 and position 5 of row 1
    plain.rollback(cache, [3, 6])
    with pytest.raises(MissingKV, match="layer 1 has no keys and values at position 5"):
        cache.check_history(1)
    plain.select(cache, [0])
    plain.step(cache, [1], {0, 1, 2})
    cache.begin_step()
    cache.check_history(1)  # row 0 never had a hole that is still there
    plain.check(cache)


def test_a_buffer_ends_where_it_was_promised_to():
    cache = PlanCache([2], [4, 2, 9])
    states = torch.ones(1, 1, 2, 1)
    for layer in range(LAYERS):
        assert cache.update(states, states, layer)[0].shape == (1, 1, 2, 1)
    cache.commit()
    assert [k.shape[2] for k in cache.keys] == [4, 2, 9] and cache.nbytes == 2 * 4 * (4 + 2 + 9)
    cache.begin_step()
    with pytest.raises(SkipbenchError, match="layer 1 was promised to end at position 2 but runs at 2"):
        cache.update(states[:, :, :1], states[:, :, :1], 1)
    assert cache.update(states[:, :, :1], states[:, :, :1], 0)[0].shape == (1, 1, 3, 1)


def test_keys_only_stops_after_writing():
    cache = PlanCache([1], [3] * LAYERS)
    cache.keys_only = True
    with pytest.raises(KeysWritten):
        cache.update(torch.ones(1, 1, 1, 1), torch.ones(1, 1, 1, 1), 0)
    cache.keys_only = False
    cache.commit()
    assert [cache.holds(layer, 0) for layer in range(LAYERS)] == [1, 0, 0]


@pytest.mark.parametrize("lengths", [[3], [3, 6, 1], [3, -1], [4, 5]])
def test_impossible_rollbacks_are_refused(lengths):
    cache = PlanCache([3, 5], [9] * LAYERS)
    cache.commit()
    with pytest.raises(SkipbenchError, match="cannot roll rows of lengths"):
        cache.rollback(lengths)
