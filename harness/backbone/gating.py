"""A gate round each decoder layer, put on and taken off by a context manager.

While gates are on, the body iterates over them instead of over its layers: a plain list shadows the layer container
in the body's instance dictionary. The modules, their `forward`s, hooks, parameters and the config are never touched, so
restoring is removing one dictionary entry, and a layer that is skipped is truly not called.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial

from torch import Tensor, nn

# visit(index, hidden, call) -> hidden; call(hidden, **overrides) runs the real layer and returns its hidden state.
Visit = Callable[[int, Tensor, Callable[..., Tensor]], Tensor]


@contextmanager
def gates(backbone, visit: Visit) -> Iterator[None]:
    """Let `visit` decide what each decoder layer does; restores the model exactly, also after an exception."""
    body, name = backbone.body, backbone.layers_attribute
    shadowed = body.__dict__.get(name)  # gates may be nested; the outer ones come back
    body.__dict__[name] = [_Gate(i, layer, visit, backbone.tuple_layers) for i, layer in enumerate(backbone.layers)]
    try:
        yield
    finally:
        if shadowed is None:
            del body.__dict__[name]
        else:
            body.__dict__[name] = shadowed


class _Gate:
    """Called by the body in a layer's place, with the layer's own arguments."""

    __slots__ = ("index", "layer", "returns_tuple", "visit")

    def __init__(self, index: int, layer: nn.Module, visit: Visit, returns_tuple: bool) -> None:
        self.index, self.layer, self.visit, self.returns_tuple = index, layer, visit, returns_tuple

    def __call__(self, hidden: Tensor, *args, **kwargs):
        if args:  # GPT-2 passes some by position
            kwargs.update(zip(_argument_names(type(self.layer)), args, strict=False))
        hidden = self.visit(self.index, hidden, partial(call_layer, self.layer, kwargs))
        return (hidden, None) if self.returns_tuple else hidden


def call_layer(layer: nn.Module, kwargs: dict, hidden: Tensor, columns: int | None = None, **overrides) -> Tensor:
    """Run a decoder layer on `hidden` [batch, columns, width]; `columns` keeps the first ones of every argument."""
    kwargs = {**kwargs, **overrides}
    if columns is not None and columns < hidden.shape[1]:
        hidden, kwargs = hidden[:, :columns], _first_columns(kwargs, columns)
    out = layer(hidden, **kwargs)
    return out[0] if isinstance(out, tuple) else out


def _first_columns(kwargs: dict, columns: int) -> dict:
    """The arguments of a decoder layer cut to the first `columns` positions."""
    cut = dict(kwargs)
    if cut.get("attention_mask") is not None:
        cut["attention_mask"] = cut["attention_mask"][..., :columns, :columns]
    if cut.get("position_ids") is not None:
        cut["position_ids"] = cut["position_ids"][:, :columns]
    if cut.get("position_embeddings") is not None:
        cut["position_embeddings"] = tuple(t[..., :columns, :] for t in cut["position_embeddings"])
    if cut.get("alibi") is not None:
        cut["alibi"] = cut["alibi"][..., :columns]
    return cut


@cache
def _argument_names(layer_class: type) -> tuple[str, ...]:
    """Names of a decoder layer's arguments after self and the hidden state."""
    return tuple(inspect.signature(layer_class.forward).parameters)[2:]
