"""Decoding without a cache, one row at a time and without padding: the reference that `decode` must equal.

Every step recomputes the whole sequence under the plan so far. Slow and simple on purpose.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from ..backbone import Backbone, masked_forward
from ..method import EarlyExit, LayerSchedule, Method, Speculative
from .sampling import require_numbers
from .states import ExitState


@dataclass(frozen=True)
class OracleOutput:
    """Of one row: output tokens, layers needed a decode step, and the logits [steps, vocabulary] behind each token."""

    tokens: list[int]
    layers_needed: list[int]
    logits: Tensor


@torch.inference_mode()
def oracle_decode(
    backbone: Backbone, method: Method, prompt: list[int], max_new_tokens: int = 64, force_length: bool = False
) -> OracleOutput:
    """Greedy decoding of one prompt (token ids), recomputing everything at every step."""
    columns = [set(map(int, method.prompt_layers())) for _ in prompt]  # the layers of every position so far
    logits = [backbone.head(_whole_sequence(backbone, prompt, columns)[-1])]
    tokens, needed = [int(logits[0].argmax())], []
    for step in range(1, max_new_tokens):
        if tokens[-1] in backbone.eos_ids and not force_length:
            break
        ids = prompt + tokens
        if isinstance(method, Speculative):
            layers, step_logits = _planned(backbone, ids, columns, range(backbone.num_layers))
        elif isinstance(method, LayerSchedule):
            layers, step_logits = _planned(backbone, ids, columns, method.layers(step))
        else:
            layers, step_logits = _exited(backbone, method, ids, columns, step, max_new_tokens - 1)
        needed.append(layers)
        logits.append(step_logits)
        tokens.append(int(step_logits.argmax()))
    steps = torch.stack(logits)
    require_numbers(backbone, steps.amax(-1))
    return OracleOutput(tokens, needed, steps)


def _planned(backbone, ids: list[int], columns: list[set], layers: Iterable[int]) -> tuple[int, Tensor]:
    columns.append(set(map(int, layers)))
    return len(columns[-1]), backbone.head(_whole_sequence(backbone, ids, columns)[-1])


def _exited(backbone, method: EarlyExit, ids: list[int], columns: list[set], step: int, max_steps: int):
    """Ask the method with every layer's states at hand; then keep, of the newest position, what it decided."""
    everything = set(range(backbone.num_layers))
    states: list[tuple[Tensor, Tensor]] = []  # before and after each layer, [1, width]
    _whole_sequence(backbone, ids, [*columns, everything], lambda _, a, b: states.append((a[:, -1], b[:, -1])))
    layer = _exit_layer(backbone, method, states, step, max_steps)
    if method.kv_policy == "oracle":  # true deeper states stay; only the output comes from the exit
        columns.append(everything)
        return layer + 1, backbone.exit_head(states[layer][1])[0]
    columns.append(set(range(layer + 1)))
    return layer + 1, backbone.head(_whole_sequence(backbone, ids, columns)[-1])


def _exit_layer(backbone, method: EarlyExit, states, step: int, max_steps: int) -> int:
    for layer in range(backbone.num_layers - 1):
        previous, hidden = (side.clone() for side in states[layer])  # a rule may write into what it gets
        last = states[-1][1].clone() if method.kv_policy == "oracle" else None
        if bool(method.should_exit(layer, ExitState(backbone, hidden, previous, step, max_steps, last))[0]):
            return layer
    return backbone.num_layers - 1


def _whole_sequence(backbone: Backbone, ids: list[int], columns: list[set], observe=None) -> Tensor:
    """Final hidden states [positions, width] of one row under a plan of layers for every position."""
    row = torch.tensor([ids], device=backbone.device)
    plan = [
        torch.tensor([[layer in layers for layers in columns]], device=backbone.device)
        for layer in range(backbone.num_layers)
    ]
    return masked_forward(backbone, row, torch.ones_like(row), plan, observe)[0]
