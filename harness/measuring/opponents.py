"""What the engine is measured against: stock `generate`, decoding without a cache, a step's bare matrix products."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from ..backbone import Backbone
from ..decoding import decode, oracle_decode
from ..decoding.clock import DeviceClock
from ..method import Method
from .rounds import round_order, value

Prompts = tuple[Tensor, Tensor]  # input ids and attention mask, [batch, tokens]


def against_generate(
    backbone: Backbone, method: Method, prompts: Prompts, new_tokens: int, rounds: int, clock: DeviceClock
) -> dict:
    """Decode throughput over that of `transformers.generate`, at full depth: `value` with its interval, `tokens_equal`.

    EOS ends nothing on either side; both sides are timed from the first output token to the last.
    """
    spans, outputs = {}, {}

    def ours() -> float:
        out = decode(backbone, method, *prompts, new_tokens, force_length=True)
        outputs["ours"] = out.tokens
        return out.timing.decode_s

    def theirs() -> float:
        first = _FirstToken(clock, backbone.device)
        outputs["theirs"] = generated(backbone, prompts, new_tokens, first)
        return clock.read(backbone.device) - first.seconds

    spans = alternate({"ours": ours, "theirs": theirs}, rounds)
    ratios = [b / a for a, b in zip(spans["ours"], spans["theirs"], strict=True)]
    return value(ratios) | {"tokens_equal": float((outputs["ours"] == outputs["theirs"]).double().mean())}


def generated(backbone: Backbone, prompts: Prompts, new_tokens: int, streamer=None) -> Tensor:
    """Greedy tokens [batch, new_tokens] of the model's own `generate`, which no EOS ends."""
    ids, mask = (side.to(backbone.device) for side in prompts)
    with _without_eos(backbone.model), torch.inference_mode():
        out = backbone.model.generate(
            input_ids=ids, attention_mask=mask, max_new_tokens=new_tokens, do_sample=False, num_beams=1,
            pad_token_id=backbone.fill_id, streamer=streamer,
        )  # fmt: skip
    return out[:, ids.shape[1] :]


def without_cache(backbone: Backbone, method: Method, prompt: list[int], new_tokens: int, clock: DeviceClock) -> dict:
    """How much longer decoding takes without a cache, prompt included: `value`, and whether the tokens are equal."""
    ids = torch.tensor([prompt])
    start = clock.read(backbone.device)
    cached = decode(backbone, method, ids, None, new_tokens, force_length=True).tokens[0].tolist()
    middle = clock.read(backbone.device)
    plain = oracle_decode(backbone, method, prompt, new_tokens, force_length=True).tokens
    end = clock.read(backbone.device)
    return value([(end - middle) / (middle - start)]) | {"tokens_equal": float(cached == plain)}


def over_matrix_products(
    backbone: Backbone, method: Method, prompts: Prompts, rounds: int, clock: DeviceClock, new_tokens: int = 16
) -> dict:
    """A decode step's time over that of its bare matrix products, side by side: `value` with its interval.

    Both sides are means over as many steps, so that what disturbs one step now and then counts alike.
    """

    def step() -> float:
        timing = decode(backbone, method, *prompts, new_tokens, force_length=True).timing
        return timing.decode_s / timing.steps

    def products() -> float:
        return matrix_products(backbone, len(prompts[0]), clock, new_tokens - 1)

    spans = alternate({"step": step, "products": products}, rounds)
    return value([a / b for a, b in zip(spans["step"], spans["products"], strict=True)])


def matrix_products(backbone: Backbone, rows: int, clock: DeviceClock, repeats: int) -> float:
    """Seconds of one decode step's matrix products alone, for `rows` rows; the mean of `repeats`, after one unmeasured.

    Weights are read in the order of a step, so that they come from where they come from in decoding.
    """
    modules = [m for layer in backbone.layers for m in layer.modules()] + [backbone.project, backbone.lm_head]
    weights = [w for m in modules if (w := _matrix(m)) is not None]
    inputs = {w.shape[1]: torch.ones(rows, w.shape[1], dtype=w.dtype, device=w.device) for w in weights}

    def products() -> None:
        for weight in weights:
            linear(inputs[weight.shape[1]], weight)

    with torch.inference_mode():
        products()
        start = clock.read(backbone.device)
        for _ in range(repeats):
            products()
        return (clock.read(backbone.device) - start) / repeats


def alternate(calls: dict[str, Callable[[], float]], rounds: int) -> dict[str, list[float]]:
    """Seconds that each call returns, one a round, after a round of warm-up; the order changes from round to round."""
    names, seconds = list(calls), {name: [] for name in calls}
    for name in names:
        calls[name]()
    for number in range(rounds):
        for place in round_order(len(names), number):
            seconds[names[place]].append(calls[names[place]]())
    return seconds


class _FirstToken:
    """A streamer of `generate` that notes when the first output token is there; the prompt is put before it."""

    def __init__(self, clock: DeviceClock, device: torch.device) -> None:
        self._clock, self._device, self._puts, self.seconds = clock, device, 0, 0.0

    def put(self, tokens: Tensor) -> None:
        self._puts += 1
        if self._puts == 2:
            self.seconds = self._clock.read(self._device)

    def end(self) -> None:
        """Nothing to flush."""


def _matrix(module: nn.Module | None) -> Tensor | None:
    """A linear module's weight, [out, in]."""
    weight = getattr(module, "weight", None)
    if isinstance(module, nn.Linear):
        return weight
    return weight.T if type(module).__name__ == "Conv1D" else None  # GPT-2 keeps [in, out]


@contextmanager
def _without_eos(model: nn.Module) -> Iterator[None]:
    config = model.generation_config
    kept, config.eos_token_id = config.eos_token_id, None
    try:
        yield
    finally:
        config.eos_token_id = kept
