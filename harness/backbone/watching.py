"""A model seen from outside, by hooks and copies of its own: is the trace true, and is nothing left changed?"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from .backbone import Backbone


@contextmanager
def layer_calls(backbone: Backbone) -> Iterator[list[list[int]]]:
    """The layers that ran to their end, one list a pass of the body, counted by hooks on the modules themselves."""
    passes: list[list[int]] = []
    handles = [backbone.body.register_forward_pre_hook(lambda *_: passes.append([]))]
    for index, layer in enumerate(backbone.layers):
        handles.append(layer.register_forward_hook(lambda *_, index=index: passes[-1].append(index)))
    try:
        yield passes
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def head_calls(backbone: Backbone) -> Iterator[list[int]]:
    """Calls of the head, by whomever: one entry a call, the rows it was read for."""
    calls: list[int] = []
    handle = backbone.lm_head.register_forward_hook(lambda _, inputs, __: calls.append(len(inputs[0])))
    try:
        yield calls
    finally:
        handle.remove()


def snapshot(backbone: Backbone) -> dict[str, object]:
    """Everything about a model that decoding could leave changed."""
    state = {
        f"attribute {name}.{key}": dict(value) if isinstance(value, dict) else value  # hooks are put into the same dict
        for name, module in backbone.model.named_modules()
        for key, value in vars(module).items()
    }
    state |= {f"weight {n}": tensor.clone() for n, tensor in backbone.model.state_dict().items()}
    state |= {f"buffer {n}": tensor.clone() for n, tensor in backbone.model.named_buffers()}  # rotary tables too
    return state | {"the config": backbone.config.to_dict()}


def changes(before: dict, after: dict) -> str:
    """The first few things that differ between two snapshots, or an empty string."""
    differing = [key for key in {**before, **after} if not _same(before.get(key), after.get(key))]
    return ", ".join(differing[:3])


def _same(a: object, b: object) -> bool:
    if a is b:
        return True
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and torch.equal(a, b)
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
    return isinstance(a, (int, float, str, list, tuple)) and type(a) is type(b) and a == b
