"""Every method on every family equals the no-cache oracle, and its trace an independent count of layer calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
from helpers.engine import KINDS, METHOD_FORMS, drawn_method, oracle_rows, prompts_of, rows_of, tiny
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness import EarlyExit, decode
from harness.backbone.tiny import tiny_prompts
from harness.backbone.watching import changes, layer_calls, snapshot
from harness.training.batches import Pair
from harness.tuning.teacher import teacher_forced

NEW_TOKENS = 6
QUIET = {"deadline": None, "suppress_health_check": list(HealthCheck), "database": None, "derandomize": True}
batches = st.lists(st.integers(1, 9), min_size=2, max_size=4, unique=True)


def check(kind: str, form: str, data) -> None:
    backbone = tiny(kind)
    method = data.draw(drawn_method(form, backbone.num_layers))
    ids, mask = tiny_prompts(data.draw(batches), seed=data.draw(st.integers(0, 99)))
    with layer_calls(backbone) as passes:
        out = decode(backbone, method, ids, mask, NEW_TOKENS)
    assert [list(out.prompt_layers), *map(list, out.layers_run)] == passes
    assert rows_of(out) == oracle_rows(backbone, method, ids, mask, NEW_TOKENS)
    if method.kv_policy != "oracle":
        for step, layers in enumerate(out.layers_run):
            assert int(out.layers_needed[:, step].max()) == len(layers)


# T01, T08, T09
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", METHOD_FORMS)
def test_decoding_equals_the_oracle(kind, form):
    before = snapshot(tiny(kind))

    @settings(max_examples={"full": 1, "oracle_exit": 1, "calm": 5}.get(form, 2), **QUIET)
    @given(st.data())
    def run(data):
        check(kind, form, data)

    run()
    assert changes(before, snapshot(tiny(kind))) == ""


@dataclass(frozen=True)
class Hindsight(EarlyExit):
    """May spoil whatever it is shown, after it has decided."""

    kv_policy: ClassVar[str] = "oracle"
    writes: bool = False

    def should_exit(self, layer, state):
        leaving = state.hidden[:, 0] > 0
        if self.writes:
            for shown in (state.hidden, state.previous, state.last):
                shown.sub_(shown.mean(-1, keepdim=True)).mul_(torch.arange(shown.shape[1]) - 7)
        return leaving


@pytest.mark.parametrize("kind", ["llama", "opt_projected"])
def test_what_a_rule_writes_in_hindsight_is_no_output(kind):
    backbone, (ids, mask) = tiny(kind), tiny_prompts([2, 6, 4])
    clean, spoiling = (Hindsight(backbone.num_layers, writes) for writes in (False, True))
    expected = rows_of(decode(backbone, clean, ids, mask, 8))
    assert rows_of(decode(backbone, spoiling, ids, mask, 8)) == expected
    assert oracle_rows(backbone, spoiling, ids, mask, 8) == expected == oracle_rows(backbone, clean, ids, mask, 8)
    pairs = [Pair(prompt, row[0]) for prompt, row in zip(prompts_of(ids, mask), expected, strict=True)]
    assert teacher_forced(backbone, spoiling, pairs, 8).accuracy == 100


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", METHOD_FORMS)
@settings(max_examples=30, **QUIET)
@given(data=st.data())
def test_decoding_equals_the_oracle_many_times(kind, form, data):
    check(kind, form, data)
