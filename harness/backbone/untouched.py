"""Is a part of a model as its library made it? Only then may something equal be computed without calling it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from torch import nn
from torch.nn.modules import module as calls

_GLOBAL_HOOKS = ("_global_forward_pre_hooks", "_global_forward_hooks")
_OWN_HOOKS = ("_forward_pre_hooks", "_forward_hooks")
_STOCK_FILES = ("transformers.models.", "torch.nn.modules.")


def is_stock(module: nn.Module, parts: Mapping[str, str]) -> bool:
    """Whether the submodule at each path is of the library's class of that name; a subclass is not."""
    for path, name in parts.items():
        part = module
        for step in path.split(".") if path else ():
            part = getattr(part, step, None)
        if type(part).__name__ != name or not type(part).__module__.startswith(_STOCK_FILES):
            return False
    return True


def sdpa_is_stock(attentions: Iterable[nn.Module]) -> bool:
    """Whether these attention modules all use `sdpa`, and that is what transformers calls so."""
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    if any(attention.config._attn_implementation != "sdpa" for attention in attentions):
        return False
    return _from_library(ALL_ATTENTION_FUNCTIONS["sdpa"], "transformers")


def untouched(modules: Iterable[nn.Module]) -> bool:
    """Whether calling these modules is nothing but their classes' own `forward`, in evaluation mode.

    No for hooks, for a `forward` replaced on a module or its class, for compiled and for training modules, and for
    weights that are no plain parameters (quantized or sharded ones).
    """
    if any(getattr(calls, hooks) for hooks in _GLOBAL_HOOKS):
        return False
    modules = list(modules)
    return all(map(_plain_class, {type(m) for m in modules})) and all(map(_plain_instance, modules))


def _plain_class(kind: type) -> bool:
    library = kind.__module__.partition(".")[0]
    own = library in ("torch", "transformers") and _from_library(kind.forward, library)
    return own and _from_library(kind.__call__, "torch")


def _plain_instance(module: nn.Module) -> bool:
    state = module.__dict__
    if module.training or "forward" in state or module._compiled_call_impl is not None:
        return False
    if any(state[hooks] for hooks in _OWN_HOOKS):
        return False
    return all(parameter is None or type(parameter) is nn.Parameter for parameter in state["_parameters"].values())


def _from_library(function: Callable | None, library: str) -> bool:
    """Whether a function, and whatever it wraps, was written in that library's files."""
    while function is not None:
        code = getattr(function, "__code__", None)
        if code is None or not code.co_filename.startswith(_folder(library)):
            return False
        function = getattr(function, "__wrapped__", None)
    return True


@cache
def _folder(library: str) -> str:
    return str(Path(find_spec(library).origin).parent)
