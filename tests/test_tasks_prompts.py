"""Prompts of the four tasks: their form, their cut, one BOS (T33)."""

import pytest

from harness import load_task
from harness.task import encode_output, encode_prompt

NAMES = ("e2e", "reddit_tldr", "cnn_dm", *(f"translation:{p}" for p in ("de-en", "en-de", "zh-en", "en-zh", "ro-en")))


def stand_in(name):
    return load_task(name, data="stand-in")


class CharTokenizer:
    """One token a character; puts a BOS in front, twice if asked to double it."""

    bos_token_id, eos_token_id = 1, 2

    def __init__(self, writes_bos):
        self.writes_bos = writes_bos

    def __call__(self, text, add_special_tokens=True):
        if isinstance(text, list):
            return {"input_ids": [self(one, add_special_tokens)["input_ids"] for one in text]}
        ids = [ord(c) + 10 for c in text]
        return {"input_ids": [1, *ids] if add_special_tokens and self.writes_bos else ids}


@pytest.mark.parametrize("name", [*NAMES, "translation:de-en-before"])
@pytest.mark.parametrize("writes_bos", [True, False])
def test_prompts_are_cut_in_the_document_and_have_one_bos(name, writes_bos):
    task, tokenizer = stand_in(name), CharTokenizer(writes_bos)
    example = task.load("test")[0]
    whole = encode_prompt(task, example, tokenizer, 100_000)
    assert not whole.truncated and whole.ids.count(1) == writes_bos and (whole.ids[0] == 1) == writes_bos
    prompt = task.prompt(example)
    document = example.fields[task.document_field]
    start = prompt.index(document)
    limit = len(prompt) - len(document) // 2
    cut = encode_prompt(task, example, tokenizer, limit)
    text = "".join(chr(i - 10) for i in cut.ids if i != 1)
    assert cut.truncated and len(cut.ids) <= limit and cut.ids.count(1) == writes_bos
    assert text.startswith(prompt[:start]) and text.endswith(prompt[start + len(document) :])
    assert encode_output(example.references[0], tokenizer)[-1] == 2
    assert 1 not in encode_output(example.references[0], tokenizer)


def test_prompt_forms():
    prompts = {name: stand_in(name).prompt_template for name in (*NAMES, "translation:zh-en-before")}
    assert prompts["e2e"] == "{mr}\n=>"
    assert prompts["reddit_tldr"] == "SUBREDDIT: r/{subreddit}\n\nTITLE: {title}\n\nPOST: {post}\n\nTL;DR:"
    assert prompts["cnn_dm"] == "{article}\n\nTL;DR:"
    assert prompts["translation:de-en"] == "{source}\nTranslate the text above from German into English:"
    assert prompts["translation:zh-en-before"].startswith(
        "Translate the text below from Chinese into English.\n{source}"
    )


def test_braces_in_the_data_are_text():
    task = stand_in("cnn_dm")
    example = type(task.load("test")[0])("0", {"article": "{curly} {0} {}"}, ("x",))
    assert task.prompt(example) == "{curly} {0} {}\n\nTL;DR:"
