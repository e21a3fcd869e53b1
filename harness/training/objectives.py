"""What is minimised: cross-entropy on output tokens, under a plan or at every layer.

An objective is the JSON value a method's `recipe` gives: {"objective": "plan", "prompt": [...], "steps": [[...], ...]}
{"objective": "multi_exit"}, or on a looped decoder {"objective": "cycles"}. A list of plans under "plans" means one
drawn at random each batch.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from ..backbone import Backbone, masked_forward
from ..errors import UsageError
from .batches import Batch

Loss = Callable[[Batch, int], Tensor]  # of a batch, at a step
EXITS_A_STEP = 6  # on deeper models a few exits are drawn each step, the last one always


def make_loss(backbone: Backbone, objective: dict, seed: int) -> Loss:
    """The loss of a batch (a scalar tensor) under an objective; raises UsageError for kinds it does not know.

    What is drawn at a step depends on the seed and the step alone, so that an interrupted run can go on.
    """
    kind = objective.get("objective")
    if kind == "plan":
        return lambda batch, step: plan_loss(backbone, objective, batch)
    if kind == "plans":
        for plan in objective["plans"]:  # a wrong one might be drawn late
            _plan_layers(plan, backbone.num_layers)
        return lambda batch, step: plan_loss(backbone, _draw(seed, step).choice(objective["plans"]), batch)
    if kind == "multi_exit":
        return lambda batch, step: multi_exit_loss(backbone, batch, _draw(seed, step))
    if kind == "cycles":
        weights = cycle_weights(backbone)
        return lambda batch, step: exits_loss(backbone, batch, weights)
    raise UsageError(
        f"unknown training objective {kind!r}; a method's recipe gives 'plan', 'plans', 'multi_exit' or 'cycles'"
    )


def _draw(seed: int, step: int) -> random.Random:
    return random.Random(f"{seed}/{step}")


def plan_loss(backbone: Backbone, objective: dict, batch: Batch) -> Tensor:
    """Mean cross-entropy of the output tokens when only the plan's layers run."""
    return cross_entropy(plan_logits(backbone, objective, batch).float(), batch.targets)


def plan_logits(backbone: Backbone, objective: dict, batch: Batch) -> Tensor:
    """Logits [output tokens, vocabulary] of a batch under a plan."""
    plan = layer_columns(objective, backbone.num_layers, batch)
    hidden = masked_forward(backbone, batch.input_ids, batch.attention_mask, plan, layout=batch.layout())
    return backbone.head(hidden.flatten(0, 1)[batch.predicting])


def layer_columns(objective: dict, num_layers: int, batch: Batch) -> list[int | Tensor]:
    """For each layer the number of leading active columns, or a mask [batch, columns] where they are not leading.

    Steps beyond the recipe's horizon keep its last step's layers. Raises UsageError for layers the model does not have.
    """
    prompt, steps = _plan_layers(objective, num_layers)
    steps = steps or [prompt]
    by_column = [prompt] * batch.prompt_columns
    for t in range(batch.decode_steps):
        by_column += [steps[min(t, len(steps) - 1)]] * batch.strands
    return [_leading([layer in layers for layers in by_column], batch) for layer in range(num_layers)]


def _plan_layers(objective: dict, num_layers: int) -> tuple[set[int], list[set[int]]]:
    """Layers of the prompt and of each step; UsageError for what would train other layers than it says, or none."""
    try:
        prompt, *steps = [set(layers) for layers in (objective["prompt"], *objective["steps"])]
    except (KeyError, TypeError):
        raise UsageError(
            'a plan to train under is {"prompt": [layer, ...], "steps": [[layer, ...], ...]}, not '
            f"{str(objective):.80}"
        ) from None
    outside = prompt.union(*steps) - set(range(num_layers))
    if outside:
        raise UsageError(
            f"a plan to train under names layer {min(outside, key=str)!r}, but the model has layers 0 to "
            f"{num_layers - 1}"
        )
    if not all((prompt, *steps)):
        raise UsageError("a plan to train under must name at least one layer for the prompt and for every step")
    return prompt, steps


def _leading(active: list[bool], batch: Batch) -> int | Tensor:
    count = sum(active)
    if all(active[:count]):
        return count
    return torch.tensor(active, device=batch.input_ids.device).expand(batch.input_ids.shape)


def multi_exit_loss(backbone: Backbone, batch: Batch, rng: random.Random) -> Tensor:
    """Cross-entropy at every layer through one shared head, layer i (from 1) weighted i / (1 + ... + N).

    On deep models a few layers are drawn each step, the last always; weights are scaled so that the mean is unbiased.
    """
    return exits_loss(backbone, batch, exit_weights(backbone.num_layers, rng))


def exits_loss(backbone: Backbone, batch: Batch, weights: Mapping[int, float]) -> Tensor:
    """Sum of the cross-entropies after the given layers (0-based), each times its weight, through one shared head."""
    kept: list[tuple[float, Tensor]] = []

    def keep(layer: int, _: Tensor, hidden: Tensor) -> None:
        if layer in weights:
            kept.append((weights[layer], hidden.flatten(0, 1)[batch.predicting]))

    everywhere = [batch.columns] * backbone.num_layers
    masked_forward(backbone, batch.input_ids, batch.attention_mask, everywhere, keep, batch.layout())
    logits = backbone.exit_head(torch.stack([hidden for _, hidden in kept])).float()
    return sum(
        w * cross_entropy(layer_logits, batch.targets) for (w, _), layer_logits in zip(kept, logits, strict=True)
    )


def cycle_weights(backbone: Backbone) -> dict[int, float]:
    """Loss weight of the last layer of each cycle c (from 1) of a looped decoder: c / (1 + ... + R)."""
    cycles = backbone.num_cycles
    if cycles is None:
        raise UsageError(f"the objective 'cycles' trains looped decoders, and model {backbone.name!r} is not looped")
    unique, total = backbone.num_layers // cycles, cycles * (cycles + 1) / 2
    return {cycle * unique - 1: cycle / total for cycle in range(1, cycles + 1)}


def exit_weights(num_layers: int, rng: random.Random) -> dict[int, float]:
    """Loss weight of each layer (0-based) that takes part in this step."""
    total = num_layers * (num_layers + 1) / 2
    weights = {layer: (layer + 1) / total for layer in range(num_layers)}
    if num_layers <= EXITS_A_STEP:
        return weights
    drawn = rng.sample(range(num_layers - 1), EXITS_A_STEP - 1)
    scale = (num_layers - 1) / len(drawn)
    return {**{layer: weights[layer] * scale for layer in sorted(drawn)}, num_layers - 1: weights[num_layers - 1]}
