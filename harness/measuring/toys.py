"""Models and methods with known behaviour, on which the measurements themselves are tried."""

from __future__ import annotations

import copy
import time
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from ..backbone import Backbone
from ..backbone.builtin import builtin_config
from ..backbone.tiny import SPREAD, tiny_backbone
from ..decoding import decode
from ..errors import SkipbenchError
from ..method import EarlyExit, Method

NEVER = 1 << 40  # a token id no model has


@dataclass(frozen=True)
class ExitHalfWay(EarlyExit):
    """Asks as CALM's softmax does, after every layer, and leaves after half of them whatever the answer."""

    name: ClassVar[str] = "exit_half_way"

    def should_exit(self, layer: int, state) -> torch.BoolTensor:
        top = state.logits().softmax(-1).topk(2, dim=-1).values
        return top[:, 0] - top[:, 1] >= (-1.0 if layer + 1 == self.num_layers // 2 else 2.0)


@dataclass(frozen=True)
class FiveMillisecondsMore(EarlyExit):
    """All layers, and 5 ms of waiting a step, with all threads awake: what waking adds is the operating system's."""

    name: ClassVar[str] = "five_milliseconds_more"
    _idle: ClassVar[Tensor] = torch.zeros(1 << 16, dtype=torch.int8)  # enough for two threads, little for a cache

    def should_exit(self, layer: int, state) -> torch.BoolTensor:
        if layer == 0:
            until = time.perf_counter() + 0.005
            while time.perf_counter() < until:
                self._idle.add_(1)
        return torch.zeros(len(state.hidden), dtype=torch.bool, device=state.hidden.device)


def random_model(name: str) -> Backbone:
    """A built-in model in float32 with random weights so spread that its tokens vary and layers matter."""
    config = builtin_config(name)
    config.init_std = SPREAD
    config.tie_word_embeddings = False  # tied, a random model repeats its last token
    backbone = tiny_backbone(config.model_type, config=config, dtype=torch.float32)
    backbone.name = f"{name} (random weights)"
    return backbone


def random_prompts(backbone: Backbone, batch: int, tokens: int, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Seeded ids of the whole vocabulary and their mask, [batch, tokens]."""
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(3, backbone.lm_head.weight.shape[0], (batch, tokens), generator=generator)
    return ids, torch.ones_like(ids)


def ends_half_way(backbone: Backbone, method: Method, prompts: tuple[Tensor, Tensor], new_tokens: int):
    """The same model with an EOS that ends this prompt's output about half way, and the output's length.

    The given model's own EOS is put out of reach. Raises SkipbenchError where no token comes first in the middle.
    """
    tokens = decode(backbone, method, *prompts, new_tokens, force_length=True).tokens[0].tolist()
    fresh = [i for i, token in enumerate(tokens) if tokens.index(token) == i]
    end = min(fresh, key=lambda i: abs(i - new_tokens // 2))
    if not new_tokens // 3 < end < 2 * new_tokens // 3:
        raise SkipbenchError(
            f"model {backbone.name!r} repeats itself: no token first comes half way; try other prompts"
        )
    model = copy.copy(backbone.model)  # the same weights under another generation config
    model.generation_config = copy.deepcopy(model.generation_config)
    model.generation_config.eos_token_id = tokens[end]
    backbone.model.generation_config.eos_token_id = NEVER
    return Backbone(model, backbone.tokenizer, f"{backbone.name}, ending early"), end + 1
