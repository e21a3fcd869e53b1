"""Every method on every family equals the no-cache oracle, and its trace an independent count of layer calls."""

from __future__ import annotations

import pytest
from helpers.engine import KINDS, METHOD_FORMS, drawn_method, oracle_rows, rows_of, tiny
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness import decode
from harness.backbone.tiny import tiny_prompts
from harness.backbone.watching import changes, layer_calls, snapshot

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


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", METHOD_FORMS)
@settings(max_examples=30, **QUIET)
@given(data=st.data())
def test_decoding_equals_the_oracle_many_times(kind, form, data):
    check(kind, form, data)
