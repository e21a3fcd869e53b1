"""Training batches: everything stands where the plan says it stands."""

import random

import torch
from hypothesis import given
from hypothesis import strategies as st

from harness import Example, Task
from harness.training.batches import Pair, batch_plan, collate, encode_pairs, lengths_of
from harness.training.tokenizer import train_tokenizer

token_lists = st.lists(st.integers(3, 30), min_size=1, max_size=6)
pairs = st.lists(st.builds(Pair, token_lists, token_lists), min_size=1, max_size=5)


@given(pairs)
def test_every_output_token_is_predicted_once_from_its_true_history(batch_pairs):
    batch = collate(batch_pairs, fill_id=0)
    flat = batch.input_ids.flatten().tolist()
    expected = [(row, step, token) for row, p in enumerate(batch_pairs) for step, token in enumerate(p.output)]
    places = zip(batch.predicting.tolist(), batch.targets.tolist(), batch.steps.tolist(), strict=True)
    for (row, step, token), (place, target, decode_step) in zip(expected, places, strict=True):
        assert (target, decode_step) == (token, step)
        assert place == row * batch.columns + batch.prompt_columns - 1 + step  # one column a step, for all rows
        history = batch_pairs[row].prompt + batch_pairs[row].output[:step]
        seen = flat[place - len(history) + 1 : place + 1]
        assert seen == history
    assert batch.attention_mask.sum().item() == sum(len(p.prompt) + len(p.output) - 1 for p in batch_pairs)


shared_prompts = st.lists(st.tuples(token_lists, st.lists(token_lists, min_size=1, max_size=5)), min_size=1, max_size=4)


@given(shared_prompts, st.integers(2, 5))
def test_outputs_that_share_a_row_have_each_its_own_history_and_positions(examples, strands):
    some = [Pair(prompt, output) for prompt, outputs in examples for output in outputs]
    batch = collate(some, 0, strands)
    visible, positions = batch.layout()
    made = []
    places = zip(batch.predicting.tolist(), batch.targets.tolist(), batch.steps.tolist(), strict=True)
    for place, target, step in places:
        row, column = divmod(place, batch.columns)
        seen = [c for c in range(batch.columns) if visible[row, column, c]]
        history = batch.input_ids[row, seen].tolist()
        assert batch.attention_mask[row, seen].all() and seen[-1] == column
        assert positions[row, seen].tolist() == list(range(len(seen)))
        if step == 0:
            made.append(Pair(history, []))
        assert history == made[-1].prompt + made[-1].output
        made[-1].output.append(target)
    assert sorted(made) == sorted(some)
    assert batch.attention_mask.sum() <= sum(len(p.prompt) + len(p.output) - 1 for p in some)


@given(shared_prompts, st.integers(1, 9), st.integers(1, 5), st.integers(0, 5))
def test_an_epoch_uses_every_pair_at_most_once_and_the_seed_decides(examples, size, strands, seed):
    some = [Pair(prompt, output) for prompt, outputs in examples for output in outputs]
    plan = batch_plan(some, size, 1, seed, strands)
    assert all(1 <= len(batch) <= size for batch in plan)
    used = [i for batch in batch_plan(some, size, 100, seed, strands)[: len(some) // size or 1] for i in batch]
    assert len(set(used)) == len(used)
    assert plan == batch_plan(some, size, 1, seed, strands)


def test_batches_hold_pairs_of_like_length():
    rng = random.Random(0)
    some = [Pair([3] * rng.randint(1, 60), [4] * rng.randint(1, 60)) for _ in range(640)]

    def padded(plan):
        return sum(collate([some[i] for i in batch], 0).input_ids.numel() for batch in plan)

    at_random = [list(range(i, i + 32)) for i in range(0, 640, 32)]
    assert padded(batch_plan(some, 32, 20, seed=0)) < 0.85 * padded(at_random)


class _Invented(Task):
    name = "invented"
    document_field = "text"

    def load(self, split):
        rows = [("red fox", ("a fox that is red", "one red fox")), ("old owl", ("an owl of age",))]
        return [Example(str(i), {"text": text}, refs) for i, (text, refs) in enumerate(rows)]

    def prompt(self, example):
        return f"{example.fields['text']}\n=>"


def test_pairs_are_made_of_every_reference_and_end_with_eos():
    task = _Invented()
    texts = [task.prompt(e) for e in task.load("train")] + [" " + r for e in task.load("train") for r in e.references]
    tokenizer = train_tokenizer(texts, 300)
    made = encode_pairs(task, "train", tokenizer, 64, 64)
    assert len(made) == 3
    assert all(p.prompt[0] == tokenizer.bos_token_id and p.prompt.count(tokenizer.bos_token_id) == 1 for p in made)
    assert all(p.output[-1] == tokenizer.eos_token_id for p in made)
    assert tokenizer.decode(made[1].output[:-1]).strip() == "one red fox"
    assert lengths_of(made).outputs == tuple(sorted(len(p.output) for p in made))
    cut = encode_pairs(task, "train", tokenizer, 64, 2)
    assert all(len(p.output) == 2 and p.output[-1] != tokenizer.eos_token_id for p in cut)


def test_the_tokenizer_is_the_same_for_the_same_texts_and_loses_no_text():
    texts = ["naïve café – 12 €", "the cat", "die Straße", "猫"] * 3
    one, two = train_tokenizer(texts, 400), train_tokenizer(texts, 400)
    assert one.get_vocab() == two.get_vocab()
    for text in texts:
        assert one.decode(one(text, add_special_tokens=False)["input_ids"]) == text
    assert torch.tensor(one(texts[0])["input_ids"])[0] == one.bos_token_id == 1
