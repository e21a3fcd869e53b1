"""A byte-level BPE tokenizer trained on a task's own training texts."""

from __future__ import annotations

from collections.abc import Iterable

SPECIAL = ("<pad>", "<s>", "</s>")  # ids 0, 1, 2: padding, BOS, EOS


def train_tokenizer(texts: Iterable[str], vocab_size: int):
    """A fast `transformers` tokenizer; the same texts give the same tokenizer. It adds one BOS in front."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        special_tokens=list(SPECIAL),
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        bos_token="<s>",
        eos_token="</s>",
        padding_side="left",
        clean_up_tokenization_spaces=False,
    )
