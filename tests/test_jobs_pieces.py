"""The pieces of an output: joined they are the output, and each holds the characters that its token completes."""

from __future__ import annotations

import codecs
import re
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, decoders, models, normalizers
from transformers import PreTrainedTokenizerFast

from harness.jobs.pieces import output_pieces
from harness.jobs.quality import Item, _records
from harness.task import EncodedPrompt, Example, decode_output
from harness.training.tokenizer import train_tokenizer

ROOT = Path(__file__).resolve().parent.parent
HARD = "naïve 🍕 日本語 👩‍👩‍👧 é\u2028\n½ don't , stop . ñ"
TEXTS = st.one_of(st.text(max_size=40), st.text(alphabet="añ 日🍕.'\n", max_size=40))


def byte_level() -> PreTrainedTokenizerFast:
    """The project's own tokenizer, with so few merges that most characters outside ASCII take several tokens."""
    return train_tokenizer(["a pizza 🍕 says: naïve, don't stop .", "日本 is far away"], 300)


def sentence_piece_like() -> PreTrainedTokenizerFast:
    """As LLaMA's: a leading space is dropped at the start only, and unknown characters fall back to bytes."""
    words = ["<pad>", "<s>", "</s>", *(f"<0x{i:02X}>" for i in range(256)), *"▁abcdefgh.,'", "▁a", "ab", "▁ab"]
    vocab = {word: i for i, word in enumerate(words)}
    merges = [("▁", "a"), ("a", "b"), ("▁a", "b")]
    inner = Tokenizer(models.BPE(vocab, merges, byte_fallback=True, fuse_unk=True))
    inner.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    inner.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    return PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="<pad>", bos_token="<s>", eos_token="</s>")


def cleaning() -> PreTrainedTokenizerFast:
    """A tokenizer that takes spaces away before punctuation, so that a token changes what stands before it."""
    words = ["<pad>", "<s>", "</s>", " .", " ,", " do", " n't", " 's", " a", "b"]
    inner = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="b"))
    inner.decoder = decoders.Fuse()
    special = {"pad_token": "<pad>", "bos_token": "<s>", "eos_token": "</s>"}
    return PreTrainedTokenizerFast(tokenizer_object=inner, clean_up_tokenization_spaces=True, **special)


TOKENIZERS = {"byte-level": byte_level(), "sentencepiece": sentence_piece_like(), "cleaning": cleaning()}
each_tokenizer = pytest.mark.parametrize("tokenizer", TOKENIZERS.values(), ids=TOKENIZERS.keys())


@each_tokenizer
@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_joined_they_are_the_output_whatever_a_model_says(tokenizer, data):
    """Random ids: broken characters, special tokens anywhere, nothing at all."""
    ids = data.draw(st.lists(st.integers(0, len(tokenizer) - 1), max_size=30))
    text = decode_output(ids, tokenizer)
    pieces = output_pieces(ids, tokenizer, text)
    assert "".join(pieces) == text and len(pieces) == len(ids)


@settings(max_examples=200, deadline=None)
@given(TEXTS)
@example(HARD)
def test_a_character_belongs_to_the_token_that_completes_it(text):
    """Against a decoder that is fed the bytes of one token after the other."""
    tokenizer = TOKENIZERS["byte-level"]
    ids = [*tokenizer(" " + text, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]
    text = decode_output(ids, tokenizer)
    decoder = codecs.getincrementaldecoder("utf-8")()
    expected = [decoder.decode(token_bytes(token, tokenizer)) for token in ids]
    assert output_pieces(ids, tokenizer, text) == stripped(expected)


@given(TEXTS)
@example(HARD)
def test_byte_fallback_leaves_no_halves_of_characters(text):
    tokenizer = TOKENIZERS["sentencepiece"]
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    text = decode_output(ids, tokenizer)
    assert "\ufffd" in text or "\ufffd" not in "".join(output_pieces(ids, tokenizer, text))


def token_bytes(token: int, tokenizer) -> bytes:
    """The bytes a byte-level token stands for, by GPT-2's table of printable stand-ins; none for a special one."""
    if token in tokenizer.all_special_ids:
        return b""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in plain]
    table = {chr(b): b for b in plain} | {chr(256 + i): b for i, b in enumerate(rest)}
    return bytes(table[c] for c in tokenizer.convert_ids_to_tokens(token))


def stripped(pieces: list[str]) -> list[str]:
    """Pieces without the white space at both ends of what they spell together."""
    text = "".join(pieces)
    first, last = len(text) - len(text.lstrip()), len(text.rstrip())
    out, at = [], 0
    for piece in pieces:
        out.append(piece[max(first - at, 0) : max(last - at, 0)])
        at += len(piece)
    return out


def test_a_record_holds_a_piece_for_each_token():
    tokenizer = TOKENIZERS["byte-level"]
    ids = [*tokenizer(" 🍕 yes", add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]
    steps = len(ids) - 1
    out = SimpleNamespace(
        tokens=torch.tensor([ids]), lengths=torch.tensor([len(ids)]), ended=torch.tensor([True]),
        layers_needed=torch.full((1, steps), 4), layers_run=[[0, 1]] * steps, head_checks=[0] * steps,
        speculation=None,
    )  # fmt: skip
    item = Item(Example("x", {}, ("y",)), EncodedPrompt([1, 2], False))
    (record,) = _records([item], 0, out, SimpleNamespace(tokenizer=tokenizer))
    assert record["output"] == "🍕 yes" == "".join(record["pieces"])
    assert len(record["pieces"]) == record["length"] and record["pieces"][-1] == ""
    documented = (ROOT / "docs" / "results.md").read_text().split("a line an example: ")[1].split("|")[0]
    assert set(re.findall(r"`(\w+)`", documented)) == {*record, "batch_rows", "sha256", "guesses", "accepted"}
