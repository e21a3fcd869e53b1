"""Looped decoders: k unique layers run R times over, as in SPEED (arXiv 2310.12072).

A looped model is a `transformers` model of N = k·R layers in which layer c·k + j owns the very parameters of layer j. A
(cycle, layer) pair is then a layer like any other, with keys and values of its own, and every method decodes it. Its
config says `num_cycles`. On disk all N layers stand: stock `transformers` reads the same function from the folder, only
the sharing is lost, and loading it here brings that back.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ..errors import UsageError
from .cache import PlanCache
from .families import family_of, part


def num_cycles(config) -> int | None:
    """How often the unique layers of a model run; None if it is not looped."""
    return getattr(config, "num_cycles", None)


def tie_cycles(model: nn.Module) -> None:
    """Let all cycles of a looped model share the first one's parameters.

    Raises UsageError if the layers do not divide into the cycles, or differ: then they are not one set of weights.
    """
    layers, unique = _cycles(model)
    for index in range(unique, len(layers)):
        first = layers[index % unique]
        for name, parameter in first.named_parameters():
            module, _, leaf = name.rpartition(".")
            if not parameter.equal(layers[index].get_parameter(name)):
                raise UsageError(
                    f"the model is said to be looped, {model.config.num_cycles} cycles of {unique} layers, but layers "
                    f"{index % unique} and {index} have different weights ({name}); take num_cycles out of its config "
                    "if it is not"
                )
            layers[index].get_submodule(module)._parameters[leaf] = parameter


def share_first_cycle(model: nn.Module) -> None:
    """As `tie_cycles` for a model whose later cycles hold nothing yet: they take the first one's weights."""
    layers, unique = _cycles(model)
    for index in range(unique, len(layers)):
        layers[index].load_state_dict(layers[index % unique].state_dict())
    tie_cycles(model)


def is_tied(model: nn.Module) -> bool:
    """Whether all cycles of a looped model share their parameters."""
    layers, unique = _cycles(model)
    return all(
        parameter is layers[index % unique].get_parameter(name)
        for index in range(unique, len(layers))
        for name, parameter in layers[index].named_parameters()
    )


def state_to_save(model: nn.Module) -> dict[str, Tensor] | None:
    """The state of a looped model with every layer's weights apart, as files want it; None if it is not looped."""
    if num_cycles(model.config) is None:
        return None
    layers, unique = _cycles(model)
    family = family_of(model)
    later = tuple(f"{family.body}.{family.layers}.{index}." for index in range(unique, len(layers)))
    return {name: t.clone() if name.startswith(later) else t for name, t in model.state_dict().items()}


def by_cycles(cache: PlanCache, cycles: int) -> PlanCache:
    """The keys and values of N layers and B rows as those of k layers and R·B rows; row c·B + b is row b in cycle c."""
    unique = len(cache.capacities) // cycles
    other = PlanCache([0] * len(cache.lengths) * cycles, cache.capacities[:unique], cache.device)
    other.lengths = cache.lengths * cycles
    for layer in range(unique):
        other.pairs[layer] = torch.cat([pair[:, : len(cache.lengths)] for pair in cache.pairs[layer::unique]], dim=1)
    other.begin_step()
    return other


def _cycles(model: nn.Module) -> tuple[nn.ModuleList, int]:
    """The layers of a looped model, and how many of them are unique."""
    family, cycles = family_of(model), model.config.num_cycles
    layers = part(part(model, family.body), family.layers)
    if isinstance(cycles, bool) or not isinstance(cycles, int) or cycles < 1 or len(layers) % cycles:
        raise UsageError(f"{len(layers)} layers do not divide into num_cycles={cycles!r} cycles")
    return layers, len(layers) // cycles
