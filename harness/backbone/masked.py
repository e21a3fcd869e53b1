"""Whole sequences under a plan, without a cache: what training runs, and what decoding is checked against.

A layer's output is kept where the plan is active and its input elsewhere. With causal attention that is exact for
closed plans, and for any other it equals the `propagate` policy: an inactive position shows a deeper layer the keys and
values of its unchanged hidden state.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from .gating import gates

# Per layer: how many leading columns are active (the rest keep their input), or a Bool mask [batch, columns].
LayerPlan = int | Tensor


class Layout(NamedTuple):
    """How tokens stand in their rows.

    Attributes:
        visible: [batch, columns, columns], whether a query (second axis) sees a key (third).
        positions: [batch, columns], counted from 0; anything at padding.
    """

    visible: Tensor
    positions: Tensor


def row_layout(attention_mask: Tensor) -> Layout:
    """One sequence a row, padded anywhere; a padded query sees itself."""
    return Layout(causal(attention_mask), row_positions(attention_mask))


def causal(attention_mask: Tensor) -> Tensor:
    """Bool [batch, columns, columns]: every query sees the tokens up to itself, and a padded one itself."""
    columns = attention_mask.shape[1]
    visible = torch.ones(columns, columns, dtype=torch.bool, device=attention_mask.device).tril()
    visible = visible & attention_mask.bool()[:, None, :]
    return visible | torch.eye(columns, dtype=torch.bool, device=attention_mask.device)


def causal_mask(attention_mask: Tensor, dtype: torch.dtype) -> Tensor:
    """Additive mask [batch, 1, columns, columns] for rows padded anywhere."""
    return additive(causal(attention_mask)[:, None], dtype)


def additive(visible: Tensor, dtype: torch.dtype) -> Tensor:
    """0 where visible, -inf elsewhere."""
    return torch.zeros(visible.shape, dtype=dtype, device=visible.device).masked_fill_(~visible, float("-inf"))


def row_positions(attention_mask: Tensor) -> Tensor:
    """Position of each token in its own row, from 0; padding gets 0."""
    return (attention_mask.long().cumsum(1) - 1).clamp_(min=0)


def masked_forward(
    backbone,
    input_ids: Tensor,
    attention_mask: Tensor,
    plan: Sequence[LayerPlan],
    observe: Callable[[int, Tensor, Tensor], None] | None = None,
    layout: Layout | None = None,
) -> Tensor:
    """Final hidden states [batch, columns, width], after the final norm, of sequences run under a plan.

    Args:
        input_ids, attention_mask: [batch, columns], padded anywhere (BLOOM, whose bias counts columns: not in between).
        plan: one entry a layer: the number of leading active columns, which is also all that is computed, or a Bool
            mask [batch, columns] of active positions.
        observe: called after each layer with (layer, hidden before it, hidden after it), each [batch, columns, width].
        layout: how the tokens stand in their rows; one sequence a row by default.
    """
    visible, positions = layout or row_layout(attention_mask)
    mask = additive(visible[:, None], backbone.compute_dtype)

    def visit(index: int, hidden: Tensor, call) -> Tensor:
        out = _run_where_active(hidden, plan[index], lambda h, columns: call(h, columns=columns, attention_mask=mask))
        if observe is not None:
            observe(index, hidden, out)
        return out

    with gates(backbone, visit):
        return backbone.run_body(input_ids, positions)


def _run_where_active(hidden: Tensor, active: LayerPlan, run) -> Tensor:
    columns = hidden.shape[1]
    if isinstance(active, int):
        if active <= 0:
            return hidden
        out = run(hidden, active)
        return out if active >= columns else torch.cat((out, hidden[:, active:]), dim=1)
    return torch.where(active.unsqueeze(-1), run(hidden, columns), hidden)
