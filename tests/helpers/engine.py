"""Tiny models, drawn methods and comparisons for the engine's tests."""

from __future__ import annotations

from functools import cache

import torch
from hypothesis import strategies as st

from harness import decode, load_method
from harness.backbone import Backbone
from harness.backbone.tiny import TINY_KINDS, tiny_backbone
from harness.decoding import oracle_decode
from harness.errors import UsageError
from harness.method import EarlyExit, Method

KINDS = list(TINY_KINDS)


@cache
def tiny(kind: str) -> Backbone:
    """The tiny model of a kind, made once; the tests see to it that it stays as it is."""
    with torch.inference_mode(False):
        return tiny_backbone(kind)


def close(a: torch.Tensor, b: torch.Tensor, kind: str) -> bool:
    """Equal but for float64 rounding; BLOOM takes its softmax in float32 whatever the dtype."""
    return torch.allclose(a, b, rtol=0, atol=1e-4 if kind == "bloom" else 1e-11)


def rows_of(out) -> list[tuple[list[int], list[int]]]:
    """Output tokens and layers needed of each row, to its end."""
    lengths = out.lengths.tolist()
    return [(out.tokens[r, :n].tolist(), out.layers_needed[r, : n - 1].tolist()) for r, n in enumerate(lengths)]


def prompts_of(ids: torch.Tensor, mask: torch.Tensor) -> list[list[int]]:
    """The prompts without their padding."""
    return [row[keep.bool()].tolist() for row, keep in zip(ids, mask, strict=True)]


def oracle_rows(backbone: Backbone, method: Method, ids, mask, max_new_tokens: int, **options):
    """What `rows_of(decode(…))` must be."""
    outputs = [oracle_decode(backbone, method, p, max_new_tokens, **options) for p in prompts_of(ids, mask)]
    return [(o.tokens, o.layers_needed) for o in outputs]


def decoded(backbone, name_or_method, ids, mask, max_new_tokens=8, **parameters):
    """Decode with a method by name or instance."""
    method = name_or_method
    if isinstance(method, str):
        method = load_method(method, num_layers=backbone.num_layers, **parameters)
    return decode(backbone, method, ids, mask, max_new_tokens)


class ScriptedExit(EarlyExit):
    """Row r leaves after `depths[r]` layers; for batches whose rows all stay to the end."""

    def __init__(self, num_layers: int, depths: list[int]) -> None:
        super().__init__(num_layers)
        object.__setattr__(self, "depths", depths)
        object.__setattr__(self, "seen", {})  # (step, row): the exit state

    def should_exit(self, layer, state):
        for row, depth in enumerate(self.depths):
            if depth == layer + 1:
                self.seen[state.step, row] = state.hidden[row].clone()
        return torch.tensor([depth <= layer + 1 for depth in self.depths])


_HORIZON = {"prompt_size": st.integers(0, 9), "max_length": st.integers(9, 20)}
_TARGETS = st.sampled_from([1.0, 1.3, 1.5, 2.0, 2.5, 3.0])


def _skipdecode(n: int) -> st.SearchStrategy[dict]:
    def fill(ordered: list[int]):
        warmup, low, high = ordered
        return st.fixed_dictionaries(
            {
                "warmup": st.just(min(warmup, low)),
                "min_layers": st.just(max(low, 1)),
                "max_layers": st.just(max(high, 1)),
                "decay": st.sampled_from(["linear", "power"]),
                "gamma": st.sampled_from([0.5, 1.0, 2.0]),
                "mode": st.sampled_from(["skip", "terminate"]),
                **_HORIZON,
            }
        )

    return st.lists(st.integers(0, n), min_size=3, max_size=3).map(sorted).flatmap(fill)


def _parameters(name: str, n: int) -> st.SearchStrategy[dict]:
    unit = st.sampled_from([0.0, 0.2, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0])
    return {
        "full": st.just({}),
        "oracle_exit": st.just({}),
        "multi_layer": st.fixed_dictionaries({"exit_layers": st.integers(1, n)}),
        "unified": st.fixed_dictionaries({"target": _TARGETS, "selection": st.sampled_from(["official", "balanced"])}),
        "random_skip": st.fixed_dictionaries(
            {
                "target": _TARGETS,
                "skip_seed": st.integers(0, 99),
                "like": st.sampled_from(["unified", "skipdecode"]),
                **_HORIZON,
            }
        ),
        "skipdecode": _skipdecode(n),
        "ramp": st.fixed_dictionaries({"skip_layers": st.integers(0, n - 1), "horizon": st.integers(1, 20)}),
        "calm": st.fixed_dictionaries(
            {
                "confidence": st.sampled_from(["softmax", "state", "classifier"]),
                "threshold": unit,
                "tau": st.sampled_from([0.0, 1.0, 4.0]),
                "decay": st.sampled_from(["paper", "code", "none"]),
                "min_exit_layer": st.integers(1, n),
                "exit_interval": st.integers(1, 3),
                "kv": st.sampled_from(["propagate", "oracle"]),
            }
        ),
    }[name]


METHOD_FORMS = ["full", "multi_layer", "unified", "random_skip", "skipdecode", "ramp", "calm", "oracle_exit"]


@st.composite
def drawn_method(draw, name: str, num_layers: int) -> Method:
    """An instance of a method with drawn parameters; `ramp` is skipdecode's third form."""
    parameters = draw(_parameters(name, num_layers))
    if name == "ramp":
        name, parameters = "skipdecode", {**parameters, "schedule": "ramp"}
    try:
        return load_method(name, num_layers=num_layers, **parameters)
    except UsageError:  # the official rule has no set for some targets
        return load_method(name, num_layers=num_layers, **{**parameters, "selection": "balanced"})
