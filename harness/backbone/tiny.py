"""Tiny random models of every supported family: what methods are validated on and the engine is tested with.

Weights are scaled so that layers matter, tokens vary and rows exit at different depths: at the usual 0.02 a random
model gives the same token everywhere. The vocabulary is small, so that EOS is met now and then.
"""

from __future__ import annotations

import torch
from torch import nn

from ..errors import unknown
from .backbone import Backbone
from .looped import num_cycles, share_first_cycle

VOCABULARY, WIDTH, HEADS, POSITIONS, EOS = 31, 16, 2, 96, 2
SPREAD = 0.2  # standard deviation of the weights; embeddings and head have 1

# kind: (config class, layers, its settings); layer counts differ, so that a fixed layer index is out of range somewhere
_KINDS = {
    "llama": ("LlamaConfig", 8, {"intermediate_size": 24, "num_key_value_heads": 1}),
    "qwen2": ("Qwen2Config", 5, {"intermediate_size": 24, "num_key_value_heads": 1, "use_sliding_window": False}),
    "opt": ("OPTConfig", 6, {"ffn_dim": 24, "word_embed_proj_dim": WIDTH}),
    # as OPT-350m: embedding and output projected, norm after each block, no final norm
    "opt_projected": ("OPTConfig", 5, {"ffn_dim": 24, "word_embed_proj_dim": 8, "do_layer_norm_before": False}),
    "gpt2": ("GPT2Config", 6, {}),
    "bloom": ("BloomConfig", 6, {}),
    "gpt_neox": ("GPTNeoXConfig", 7, {"intermediate_size": 24}),
}
TINY_KINDS = {kind: layers for kind, (_, layers, _) in _KINDS.items()}  # kind: its layers
# looped kinds: (kind of the layers, all layers, cycles)
_LOOPED = {"looped_opt": ("opt", 6, 3), "looped_llama": ("llama", 6, 2), "looped_gpt2": ("gpt2", 4, 4)}
LOOPED_KINDS = {kind: layers for kind, (_, layers, _) in _LOOPED.items()}


def tiny_config(kind: str, num_layers: int | None = None):
    """The `transformers` config of a tiny model; `kind` is a family, `opt_projected` or a looped kind."""
    import transformers

    if kind in _LOOPED:
        base, layers, cycles = _LOOPED[kind]
        config = tiny_config(base, num_layers or layers)
        config.num_cycles = cycles
        return config
    if kind not in _KINDS:
        raise unknown("tiny model", kind, [*_KINDS, *_LOOPED])
    name, layers, settings = _KINDS[kind]
    return getattr(transformers, name)(
        vocab_size=VOCABULARY,
        hidden_size=WIDTH,
        num_hidden_layers=num_layers or layers,
        num_attention_heads=HEADS,
        max_position_embeddings=POSITIONS,
        initializer_range=SPREAD,
        init_std=SPREAD,  # OPT's name for it
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=EOS,
        tie_word_embeddings=False,
        **settings,
    )


def tiny_backbone(
    kind: str, num_layers: int | None = None, seed: int = 0, dtype: torch.dtype = torch.float64, config=None
) -> Backbone:
    """A backbone with seeded random weights, biases and norms too, and a random exit classifier."""
    from transformers import AutoModelForCausalLM

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(config or tiny_config(kind, num_layers)).to(dtype).eval()
        if num_cycles(model.config) is not None:
            share_first_cycle(model)
        _scatter_weights(model)
        classifier = torch.randn(model.config.hidden_size + 1, dtype=dtype)
    return Backbone(model, name=f"tiny-{kind}", exit_classifier=classifier)


@torch.no_grad()
def _scatter_weights(model: nn.Module) -> None:
    for parameter in model.parameters():
        if parameter.ndim == 1:  # zeros and ones by default, which hide what is left out
            parameter.add_(torch.randn_like(parameter) * 0.1)
    for module in [*model.modules()]:
        if isinstance(module, nn.Embedding) or module is model.get_output_embeddings():
            module.weight.div_(SPREAD)


def tiny_prompts(lengths: list[int], seed: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """Random prompts of the given lengths: input ids and mask [batch, longest], left-padded with id 0."""
    generator = torch.Generator().manual_seed(seed)
    longest = max(lengths)
    ids = torch.randint(3, VOCABULARY, (len(lengths), longest), generator=generator)
    mask = (torch.arange(longest) >= longest - torch.tensor(lengths)[:, None]).long()
    return ids * mask, mask
