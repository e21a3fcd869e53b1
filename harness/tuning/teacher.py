"""Teacher-forced quality: next-token loss and accuracy on references, under the layers a method would run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from ..backbone import Backbone, gates, masked_forward
from ..backbone.masked import causal_mask, row_positions
from ..decoding.states import ExitState
from ..method import EarlyExit, LayerSchedule, Method, Speculative
from ..training.batches import Batch, Pair, collate
from ..training.objectives import layer_columns, plan_logits


@dataclass(frozen=True)
class TeacherForced:
    """Per output token of all pairs: place in the output (0 is the first), loss in nats, and whether arg-max hit."""

    places: Tensor
    losses: Tensor
    correct: Tensor

    @property
    def loss(self) -> float:
        """Mean loss a token."""
        return float(self.losses.mean())

    @property
    def accuracy(self) -> float:
        """Share of tokens predicted right, in per cent."""
        return 100 * float(self.correct.double().mean())

    def counts(self) -> list[int]:
        """Output tokens at output position 1, 2, …"""
        return torch.bincount(self.places).tolist()

    def loss_by_position(self) -> list[float]:
        """Mean loss at output position 1, 2, …"""
        return self._by_position(self.losses)

    def accuracy_by_position(self) -> list[float]:
        """Share of tokens predicted right, in per cent, at output position 1, 2, …"""
        return [100 * share for share in self._by_position(self.correct.double())]

    def _by_position(self, values: Tensor) -> list[float]:
        return (torch.bincount(self.places, weights=values) / torch.bincount(self.places)).tolist()


def teacher_forced(
    backbone: Backbone, method: Method, pairs: Sequence[Pair], max_new_tokens: int, batch_size: int = 32
) -> TeacherForced:
    """Score the reference outputs of `pairs` token by token, with the history a method would have had."""
    parts = []
    with torch.inference_mode():
        for start in range(0, len(pairs), batch_size):
            batch = collate(pairs[start : start + batch_size], backbone.fill_id).to(backbone.device)
            logits = method_logits(backbone, method, batch, max_new_tokens - 1).float()
            losses = cross_entropy(logits, batch.targets, reduction="none")
            parts.append((batch.steps, losses.double(), logits.argmax(-1) == batch.targets))
    return TeacherForced(*(torch.cat(values).cpu() for values in zip(*parts, strict=True)))


def method_logits(backbone: Backbone, method: Method, batch: Batch, max_steps: int) -> Tensor:
    """Logits [output tokens, vocabulary] of a batch when each position runs what the method says."""
    if isinstance(method, LayerSchedule):
        return plan_logits(backbone, LayerSchedule.recipe(method, batch.decode_steps), batch)
    if isinstance(method, Speculative):  # lossless: what counts in the end is the whole model
        everywhere = list(range(backbone.num_layers))
        return plan_logits(backbone, {"prompt": everywhere, "steps": [everywhere]}, batch)
    exits = _hindsight_logits if method.kv_policy == "oracle" else _exit_logits
    return exits(backbone, method, batch, max_steps)


def _exit_logits(backbone: Backbone, method: EarlyExit, batch: Batch, max_steps: int) -> Tensor:
    """Each output position leaves where the method lets it; deeper layers then see its unchanged state."""
    mask = causal_mask(batch.attention_mask, backbone.dtype)
    left = torch.zeros_like(batch.attention_mask, dtype=torch.bool)
    prompt_layers = set(method.prompt_layers())

    def visit(index: int, hidden: Tensor, call) -> Tensor:
        left[:, : batch.prompt_columns] = index not in prompt_layers
        out = torch.where(left.unsqueeze(-1), hidden, call(hidden, attention_mask=mask))
        for step in range(1, batch.decode_steps + 1) if index < backbone.num_layers - 1 else ():
            column = batch.prompt_columns + step - 1
            state = ExitState(backbone, out[:, column], hidden[:, column], step, max_steps)
            left[:, column] |= method.should_exit(index, state)
        return out

    with gates(backbone, visit):
        hidden = backbone.run_body(batch.input_ids, row_positions(batch.attention_mask))
    return backbone.head(hidden.flatten(0, 1)[batch.predicting])


def _hindsight_logits(backbone: Backbone, method: EarlyExit, batch: Batch, max_steps: int) -> Tensor:
    """Every layer runs on the true states; only what each output position predicts comes from its exit."""
    states: list[tuple[Tensor, Tensor]] = []  # before and after each layer
    whole = list(range(backbone.num_layers))
    plan = layer_columns({"prompt": list(method.prompt_layers()), "steps": [whole]}, backbone.num_layers, batch)
    keep = lambda _, before, after: states.append((before, after))  # noqa: E731
    masked_forward(backbone, batch.input_ids, batch.attention_mask, plan, keep)
    last = states[-1][1]
    exits = last.clone()
    for step in range(1, batch.decode_steps + 1):
        column = batch.prompt_columns + step - 1
        left = torch.zeros(len(last), dtype=torch.bool, device=last.device)
        for layer, (before, after) in enumerate(states[:-1]):
            hidden, previous, end = (side[:, column].clone() for side in (after, before, last))  # rules may write
            state = ExitState(backbone, hidden, previous, step, max_steps, end)
            leaving = method.should_exit(layer, state) & ~left
            exits[leaving, column] = after[leaving, column]
            left |= leaving
    return backbone.exit_head(exits.flatten(0, 1)[batch.predicting])
