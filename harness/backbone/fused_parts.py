"""What fused layers are put together from: joint weights, rotary tables, the norm in few operations."""

from __future__ import annotations

import torch
from torch import Tensor, nn

TABLE = 256  # positions of the first rotary table


class QKV:
    """Query, key and value weights of an attention module in one matrix; its memory is kept from call to call."""

    def __init__(self, attention: nn.Module) -> None:
        self._weights, self._biases = parameters_of(attention)
        self._rows = [weight.shape[0] for weight in self._weights]
        first = self._weights[0]
        with torch.inference_mode(False):  # a tensor made in inference mode could be written there only
            self.weight = torch.empty(sum(self._rows), first.shape[1], dtype=first.dtype, device=first.device)
            self.bias = None if self._biases[0] is None else self.weight.new_empty(sum(self._rows))

    @property
    def queries(self) -> int:
        """Rows of the query's projection, which come first."""
        return self._rows[0]

    @property
    def is_whole(self) -> bool:
        """Whether the parameters, which may have changed in place, still go into the one matrix."""
        kinds = {(w.dtype, w.device, w.shape[1]) for w in (self.weight, *self._weights)}
        biased = {bias is not None for bias in (self.bias, *self._biases)}
        return len(kinds) == len(biased) == 1 and [w.shape[0] for w in self._weights] == self._rows

    def refresh(self) -> None:
        """Copy the weights as they are now."""
        torch.cat(self._weights, out=self.weight)
        if self.bias is not None:
            torch.cat(self._biases, out=self.bias)


class Product:
    """A linear map of states [rows, in], its weight transposed once instead of at every call."""

    def __init__(self, weight: Tensor, bias: Tensor | None) -> None:
        self._weight, self._bias = weight.t(), bias

    @classmethod
    def of(cls, module: nn.Linear) -> Product:
        """That of a linear module."""
        return cls(module.weight, module.bias)

    def __call__(self, states: Tensor) -> Tensor:
        """The images, [rows, out]."""
        if self._bias is None:
            return torch.mm(states, self._weight)
        return torch.addmm(self._bias, states, self._weight)

    def added_to(self, hidden: Tensor, states: Tensor) -> Tensor:
        """The images plus hidden states [rows, out]."""
        if self._bias is None:
            return torch.addmm(hidden, states, self._weight)
        return self(states).add_(hidden)


class Rotary:
    """Rotary position embedding from tables made ahead by the model's own module.

    `example` gives type and device. The tables grow with the positions.
    """

    def __init__(self, embedding: nn.Module, example: Tensor) -> None:
        self._embedding, self._example, self._cos = embedding, example, example[:0]

    def at(self, positions: Tensor, end: int) -> None:
        """The pass's positions, [rows, columns], all below `end`."""
        if end > len(self._cos):
            self._prepare(max(2 * end, TABLE))
        self._cos_now, self._sin_now = self._cos[positions].unsqueeze(2), self._sin[positions].unsqueeze(2)

    def __call__(self, states: Tensor) -> None:
        """Turn queries or keys [rows, columns, heads, head width] in place."""
        rolled = states.roll(self._half, -1)
        states.mul_(self._cos_now).addcmul_(rolled, self._sin_now)

    def _prepare(self, positions: int) -> None:
        cos, sin = self._embedding(self._example, torch.arange(positions, device=self._example.device).unsqueeze(0))
        self._half = half = sin.shape[-1] // 2
        self._cos = cos[0]
        self._sin = torch.cat((-sin[0, :, :half], sin[0, :, half:]), dim=-1)  # with the sign of rotate_half


class RMSNorm:
    """Root mean square norm of hidden states [rows, width], as the stock module computes it: in float32."""

    def __init__(self, module: nn.Module) -> None:
        self._weight, self._eps = module.weight, module.variance_epsilon
        width = self._weight.shape[0]
        self._is_float32 = self._weight.dtype == torch.float32
        if self._is_float32:  # then x · w / sqrt(|x|² / n + eps) is x · (w · sqrt(n)) / hypot(|x|, sqrt(n · eps))
            self._scaled_weight = self._weight * width**0.5
            self._floor = self._weight.new_tensor((width * self._eps) ** 0.5)

    def __call__(self, hidden: Tensor) -> Tensor:
        """The normed states, same shape and type."""
        if self._is_float32:
            size = torch.linalg.vector_norm(hidden, 2, -1, True)
            return torch.div(hidden, torch.hypot(size, self._floor)).mul_(self._scaled_weight)
        exact = hidden.float()
        scale = exact.pow(2).mean(-1, keepdim=True).add_(self._eps).rsqrt_()
        return (exact * scale).to(hidden.dtype).mul_(self._weight)


def parameters_of(attention: nn.Module) -> tuple[list[Tensor], list[Tensor | None]]:
    """Weights and biases of query, keys and values."""
    parts = (attention.q_proj, attention.k_proj, attention.v_proj)
    return [part.weight for part in parts], [part.bias for part in parts]
