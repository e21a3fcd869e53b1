"""Built-in models: made from a config, trained on a task by this project.

Sizes are chosen so that a whole comparison fits two CPU cores: a vocabulary of 2,048 leaves the layers most of the
work.
"""

from __future__ import annotations

from ..errors import unknown

VOCABULARY = 2048
POSITIONS = 1024

# name: (family, layers, width, attention heads)
BUILTIN = {
    "mini-opt": ("opt", 12, 128, 4),
    "tiny-opt": ("opt", 12, 256, 4),
    "tiny-llama": ("llama", 12, 256, 4),
    "nano-opt": ("opt", 4, 32, 2),
    "looped-opt": ("opt", 12, 128, 4),
    "looped-opt-4x1": ("opt", 4, 128, 4),
    "looped-opt-4x2": ("opt", 8, 128, 4),
    "looped-opt-4x4": ("opt", 16, 128, 4),
    "looped-llama": ("llama", 12, 128, 4),
    "nano-looped-opt": ("opt", 4, 32, 2),
    "wide-opt": ("opt", 12, 512, 8),  # for a GPU, like the looped ones of this width
    "looped-opt-512": ("opt", 12, 512, 8),
    "looped-opt-512-4x1": ("opt", 4, 512, 8),
    "looped-opt-512-4x2": ("opt", 8, 512, 8),
    "looped-opt-512-4x4": ("opt", 16, 512, 8),
}
# Cycles of the looped ones: looped-FAMILY runs 4 unique layers 3 times, looped-FAMILY-KxR runs K of them R times; a
# width other than 128 stands behind the family.
CYCLES = {
    "looped-opt": 3,
    "looped-opt-4x1": 1,
    "looped-opt-4x2": 2,
    "looped-opt-4x4": 4,
    "looped-llama": 3,
    "nano-looped-opt": 2,
    "looped-opt-512": 3,
    "looped-opt-512-4x1": 1,
    "looped-opt-512-4x2": 2,
    "looped-opt-512-4x4": 4,
}


def builtin_config(name: str, vocab_size: int = VOCABULARY, max_positions: int = POSITIONS):
    """The `transformers` config of a built-in model; token ids 0, 1, 2 are padding, BOS and EOS."""
    if name not in BUILTIN:
        raise unknown("built-in model", name, BUILTIN)
    family, layers, width, heads = BUILTIN[name]
    common = {
        "vocab_size": vocab_size,
        "hidden_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "max_position_embeddings": max_positions,
        "attention_dropout": 0.0,
        "pad_token_id": 0,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "tie_word_embeddings": True,
        **({"num_cycles": CYCLES[name]} if name in CYCLES else {}),
    }
    return _llama(common, width) if family == "llama" else _opt(common, width)


def untrained(name: str, vocab_size: int = VOCABULARY, seed: int = 0, max_positions: int = POSITIONS):
    """A built-in model with seeded random weights."""
    import torch
    from transformers import AutoModelForCausalLM
    from transformers.utils.logging import disable_progress_bar

    from .looped import share_first_cycle

    disable_progress_bar()  # saving the model shows bars of its own otherwise
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(builtin_config(name, vocab_size, max_positions))
    if name in CYCLES:
        share_first_cycle(model)
    return model


def _opt(common: dict, width: int):
    from transformers import OPTConfig

    return OPTConfig(
        **common, ffn_dim=4 * width, word_embed_proj_dim=width, dropout=0.0, layerdrop=0.0, init_std=_spread(width)
    )


def _llama(common: dict, width: int):
    from transformers import LlamaConfig

    intermediate = width * 8 // 3 // 8 * 8
    return LlamaConfig(**common, intermediate_size=intermediate, initializer_range=_spread(width))


def _spread(width: int) -> float:
    """Standard deviation of the initial weights: the usual 0.02 suits width 1,000, and learns later at 128."""
    return 0.6 / width**0.5
