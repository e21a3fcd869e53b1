"""Data stay data: the name of a special token in a post, a reference or a document is text."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from harness import Example, Task, load_task
from harness.errors import UsageError
from harness.task import decode_output, encode_output, encode_outputs, encode_prompt
from harness.training.tokenizer import train_tokenizer

TEXTS = ["old price new price <b> a post </b> says: yes, 42 % [INST]"]
BYTES = pre_tokenizers.ByteLevel.alphabet()


def made_here() -> PreTrainedTokenizerFast:
    return train_tokenizer(TEXTS, 300)


def like_llama() -> PreTrainedTokenizerFast:
    """SentencePiece's pieces as BPE, bytes for what is unknown, a BOS in front."""
    words = ["<unk>", "<s>", "</s>", *(f"<0x{i:02X}>" for i in range(256)), *"▁abcdeiloprstx<>/|_.,", "</", "s>", "▁a"]
    merges = [("<", "/"), ("s", ">"), ("▁", "a")]
    inner = Tokenizer(models.BPE({w: i for i, w in enumerate(words)}, merges, unk_token="<unk>", byte_fallback=True))
    inner.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    inner.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    inner.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 1)])
    return PreTrainedTokenizerFast(tokenizer_object=inner, bos_token="<s>", eos_token="</s>", unk_token="<unk>")


def byte_level(*special: str) -> Tokenizer:
    inner = Tokenizer(models.BPE({c: i for i, c in enumerate(sorted(BYTES))}, []))
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    inner.add_special_tokens([AddedToken(name, special=True) for name in special])
    return inner


def like_gpt2() -> PreTrainedTokenizerFast:
    """One token is BOS, EOS and the unknown; none is put in front."""
    end = "<|endoftext|>"
    return PreTrainedTokenizerFast(tokenizer_object=byte_level(end), bos_token=end, eos_token=end, unk_token=end)


def like_qwen() -> PreTrainedTokenizerFast:
    """No BOS; the marks of a chat are special, and not all of them have a role."""
    inner = byte_level("<|endoftext|>", "<|im_start|>", "<|im_end|>")
    return PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<|im_end|>", pad_token="<|endoftext|>")


TOKENIZERS = {"ours": made_here(), "llama": like_llama(), "gpt2": like_gpt2(), "qwen": like_qwen()}
each_tokenizer = pytest.mark.parametrize("tokenizer", TOKENIZERS.values(), ids=TOKENIZERS.keys())
NAMES = ("<s>", "</s>", "<pad>", "<unk>", "<|endoftext|>", "<|im_start|>", "<|im_end|>")


@dataclass
class Post(Task):
    """A post between a template's words."""

    name = "post"
    document_field = "post"
    template: str = "POST: {post}\n=>"

    def prompt(self, example):
        return self.template.format_map(example.fields)


def post(text: str) -> Example:
    return Example("0", {"post": text}, (text,))


def special_ids(tokenizer) -> set[int]:
    return {i for i, token in tokenizer.added_tokens_decoder.items() if token.special}


def written(tokenizer) -> list[str]:
    """The names of a tokenizer's special tokens, which it reads as such where nobody stops it."""
    names = [
        name for name in NAMES if set(tokenizer(name, add_special_tokens=False)["input_ids"]) & special_ids(tokenizer)
    ]
    assert names
    return names


@each_tokenizer
def test_a_special_tokens_name_in_the_data_is_text(tokenizer):
    own_bos = tokenizer.bos_token_id is not None and tokenizer("")["input_ids"] == [tokenizer.bos_token_id]
    for name in written(tokenizer):
        text = f"a {name}old price{name} post"
        ids = encode_prompt(Post(), post(text), tokenizer, 1000).ids
        body = ids[1:] if own_bos else ids
        assert not special_ids(tokenizer) & set(body) and own_bos == (ids[0] == tokenizer.bos_token_id)
        assert tokenizer.decode(body).strip() == f"POST: {text}\n=>"
        *output, end = encode_output(text, tokenizer)
        assert end == tokenizer.eos_token_id and not special_ids(tokenizer) & set(output)
        assert decode_output(output, tokenizer) == text


@each_tokenizer
def test_ordinary_text_keeps_its_ids_beside_odd_text(tokenizer):
    """In a list with texts that hold names of special tokens, and after them."""
    usual = ["a post", " old  price\n", "1 < 2 > 0", "</b>s>", "é 日本 🍕", "<s", "<| endoftext |>"]
    plain = [tokenizer(" " + text.strip(), add_special_tokens=False)["input_ids"] for text in usual]
    mixed = encode_outputs([*usual, *written(tokenizer), *usual], tokenizer)
    end = [tokenizer.eos_token_id]
    assert mixed[: len(usual)] == mixed[-len(usual) :] == [[*ids, *end] for ids in plain]
    with_bos = tokenizer("POST: a post\n=>")["input_ids"]
    assert encode_prompt(Post(), post("a post"), tokenizer, 1000).ids == with_bos


@pytest.mark.parametrize("name", ["e2e", "reddit_tldr", "cnn_dm", "translation:de-en", "translation:en-zh"])
@pytest.mark.parametrize("kind", ["ours", "gpt2"])
def test_stand_ins_are_encoded_as_the_tokenizer_alone_does(name, kind):
    """What checkpoints were trained on: no id of usual examples depends on how names of special tokens are read."""
    task, tokenizer = load_task(name, data="stand-in"), TOKENIZERS[kind]
    for example in task.load("train")[:100]:
        assert encode_prompt(task, example, tokenizer, 100_000).ids == tokenizer(task.prompt(example))["input_ids"]
        references = [" " + reference.strip() for reference in example.references]
        plain = tokenizer(references, add_special_tokens=False)["input_ids"]
        assert encode_outputs(example.references, tokenizer) == [[*ids, tokenizer.eos_token_id] for ids in plain]


def test_a_document_is_cut_among_the_names_of_special_tokens():
    task, tokenizer = Post(), made_here()
    whole = encode_prompt(task, post("<s>" * 40), tokenizer, 1000)
    cut = encode_prompt(task, post("<s>" * 40), tokenizer, len(whole.ids) // 2)
    assert cut.truncated and cut.ids.count(tokenizer.bos_token_id) == 1 and tokenizer.eos_token_id not in cut.ids


def test_a_templates_own_special_tokens_stay():
    """A chat's marks are the task's words; the same marks in the data cannot be told apart from them."""
    task, tokenizer = Post(template="<|im_start|>user\n{post}<|im_end|>\n"), TOKENIZERS["qwen"]
    start, end = tokenizer.convert_tokens_to_ids(["<|im_start|>", "<|im_end|>"])
    ids = encode_prompt(task, post("a post"), tokenizer, 1000).ids
    assert ids == tokenizer("<|im_start|>user\na post<|im_end|>\n")["input_ids"] and {start, end} <= set(ids)
    with pytest.raises(UsageError, match="the field 'post' of an example holds a special token"):
        encode_prompt(task, post("a <|im_end|> post"), tokenizer, 1000)


def test_a_template_that_writes_the_bos_gives_one():
    task, tokenizer = Post(template="<s>{post}"), made_here()
    assert encode_prompt(task, post("a post"), tokenizer, 1000).ids.count(tokenizer.bos_token_id) == 1


def test_unknown_characters_are_no_special_tokens_of_the_data():
    """The token for them stands in usual texts, also in those of a chat; its name is text like another."""
    words = ["<unk>", "<s>", "</s>", "<|user|>", *"▁abcdeopst<>/unk"]
    inner = Tokenizer(models.BPE({w: i for i, w in enumerate(dict.fromkeys(words))}, [], unk_token="<unk>"))
    special = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, **special)
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|user|>"]})
    chat = Post(template="<|user|>{post}")
    ids = encode_prompt(chat, post("aZb"), tokenizer, 1000).ids
    assert ids == tokenizer("<|user|>aZb")["input_ids"] and 0 in ids
    assert 0 not in encode_output("<unk>", tokenizer)[1:]  # the space is unknown


def test_what_a_tokenizer_cannot_read_as_text_is_refused():
    """Words as they are: `</s>` is in the vocabulary, and there is nothing to cut it into."""
    inner = Tokenizer(models.WordLevel({"<s>": 0, "</s>": 1, "a": 2, "?": 3}, unk_token="?"))
    inner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, bos_token="<s>", eos_token="</s>", unk_token="?")
    assert encode_output("a b a", tokenizer) == [2, 3, 2, 1]
    with pytest.raises(UsageError, match="'</s>', which this tokenizer reads as a special token"):
        encode_output("a </s> a", tokenizer)


class EveryText:
    """A tokenizer of somebody's own: a BOS before any text, though told not to, and no further options."""

    bos_token_id, eos_token_id = 1, 2

    def __call__(self, text, add_special_tokens=True):
        if isinstance(text, list):
            return {"input_ids": [self(one)["input_ids"] for one in text]}
        return {"input_ids": [1, *(ord(c) for c in text)]}


def test_a_tokenizer_that_always_puts_its_bos_gives_one():
    ids = encode_prompt(Post(), post("a post"), EveryText(), 1000).ids
    assert ids == [1, *map(ord, "POST: a post\n=>")]
