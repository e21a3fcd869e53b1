"""The opponents are really what they say, and `bench` measures every figure; how fast is nobody's business here."""

from __future__ import annotations

import json

import pytest
import torch
from helpers.engine import ScriptedExit
from torch.utils.flop_counter import FlopCounterMode

from harness import decode, load_method
from harness.backbone.tiny import tiny_backbone, tiny_prompts
from harness.decoding.clock import DeviceClock, using_clock
from harness.errors import SkipbenchError, UsageError
from harness.measuring import bench, opponents, races
from harness.measuring.batch_speeds import batch_speeds
from harness.measuring.opponents import against_generate, alternate, generated, matrix_products, without_cache
from harness.measuring.toys import ends_half_way, random_model, random_prompts
from harness.training.batches import Pair, batch_plan, collate
from harness.training.loop import STRANDS
from harness.training.objectives import plan_loss


class Heads(DeviceClock):
    """A clock on which only reading a head takes time: one second."""

    def __init__(self, backbone) -> None:
        self.seconds = 0.0
        backbone.lm_head.register_forward_pre_hook(lambda *_: self.pass_time())

    def pass_time(self) -> None:
        self.seconds += 1

    def now(self) -> float:
        return self.seconds


@pytest.mark.parametrize("kind", ["opt", "llama", "gpt2"])
def test_generate_is_not_ended_and_the_model_keeps_its_eos(kind):
    backbone, prompts = tiny_backbone(kind), tiny_prompts([4, 6, 5])
    full = load_method("full", backbone.num_layers)
    tokens = decode(backbone, full, *prompts, 24, force_length=True).tokens
    backbone.model.generation_config.eos_token_id = eos = int(tokens[0, 3])
    assert torch.equal(generated(backbone, prompts, 24), tokens)
    assert backbone.model.generation_config.eos_token_id == eos


def test_against_generate_times_the_same_span_on_both_sides():
    backbone = tiny_backbone("opt")
    full, clock = load_method("full", backbone.num_layers), Heads(backbone)
    with using_clock(clock):
        found = against_generate(backbone, full, tiny_prompts([4, 4]), 8, 3, clock)
    assert found == {"value": 1, "low": 1, "high": 1, "tokens_equal": 1}
    assert clock.seconds == 2 * 4 * 8  # two sides, a warm-up and three rounds, a head a token


def test_without_cache_decodes_the_same_tokens():
    backbone = tiny_backbone("opt")
    found = without_cache(backbone, load_method("full", backbone.num_layers), [5, 6, 7], 6, Heads(backbone))
    assert found["tokens_equal"] == 1 and found["value"] == 1


@pytest.mark.parametrize("kind", ["llama", "opt_projected", "gpt2", "gpt_neox"])
def test_matrix_products_are_those_of_a_decode_step(kind):
    backbone = tiny_backbone(kind, dtype=torch.float32)
    with FlopCounterMode(display=False) as bare:
        matrix_products(backbone, 3, DeviceClock(), repeats=1)
    weights = [p for layer in backbone.layers for p in layer.parameters() if p.ndim == 2] + [backbone.lm_head.weight]
    weights += [backbone.project.weight] if backbone.project is not None else []
    assert bare.get_total_flops() == 2 * 2 * 3 * sum(w.numel() for w in weights)  # two repeats, warm-up included


def test_a_step_is_held_against_its_own_products():
    backbone = tiny_backbone("opt", dtype=torch.float32)
    clock = Heads(backbone)
    backbone.lm_head.register_forward_pre_hook(lambda *_: clock.pass_time())  # two seconds a step
    with using_clock(clock), pytest.MonkeyPatch.context() as patch:
        patch.setattr(opponents, "matrix_products", lambda backbone, rows, clock, repeats: rows * repeats / 8)
        full = load_method("full", backbone.num_layers)
        found = opponents.over_matrix_products(backbone, full, tiny_prompts([4, 4]), 3, clock, new_tokens=5)
    assert found == {"value": 2, "low": 2, "high": 2}


class Layers(DeviceClock):
    """A clock on which a layer's feed-forward takes a second, and nothing else any time."""

    def __init__(self, backbone) -> None:
        self.seconds = 0.0
        for layer in backbone.layers:
            layer.mlp.register_forward_pre_hook(lambda *_: self.pass_time())

    pass_time, now = Heads.pass_time, Heads.now


def test_speed_by_batch_is_that_of_the_layers_the_batch_ran():
    backbone = tiny_backbone("gpt2")  # 6 layers
    clock, lengths = Layers(backbone), [4, 6, 3]
    methods = {
        "full": load_method("full", 6),
        "unified": load_method("unified", 6, target=2),
        "exits": ScriptedExit(6, [1, 2, 4]),
    }
    with using_clock(clock):
        found = batch_speeds(backbone, methods, tiny_prompts(lengths), 5, 2)
    assert [found[key].speedup["value"] for key in methods] == [1, 6 / 3, 6 / 4]
    assert [found[key].needed for key in methods] == [6, 3, pytest.approx(7 / 3)]
    assert [found[key].ran for key in methods] == [6, 3, 4]
    assert [found[key].tokens_per_s for key in methods] == [pytest.approx(3 / layers) for layers in (6, 3, 4)]


def test_alternate_runs_each_call_once_a_round_after_a_warm_up():
    order = []
    calls = {name: lambda name=name: order.append(name) or float(len(order)) for name in "ab"}
    seconds = alternate(calls, 4)
    assert order == ["a", "b", *"abbaabba"]
    assert seconds == {"a": [3, 6, 7, 10], "b": [4, 5, 8, 9]}


def test_toy_ends_half_way_with_the_same_weights():
    backbone = random_model("nano-opt")
    full, prompts = load_method("full", 4), random_prompts(backbone, 1, 8)
    short, end = ends_half_way(backbone, full, prompts, 24)
    whole = decode(backbone, full, *prompts, 24)
    ended = decode(short, full, *prompts, 24)
    assert whole.lengths.tolist() == [24] and ended.lengths.tolist() == [end] and 8 < end <= 16
    assert ended.tokens[0].tolist() == whole.tokens[0, :end].tolist()
    assert short.lm_head is backbone.lm_head
    constant = load_method("full", 4)
    with torch.no_grad():
        backbone.lm_head.weight.zero_()
    with pytest.raises(SkipbenchError, match="repeats itself"):
        ends_half_way(backbone, constant, prompts, 24)


def missing_trainer(*_) -> dict:
    raise UsageError("no accelerate")


@pytest.mark.long
def test_training_is_raced_against_the_trainer():
    backbone = random_model("nano-opt")
    found = races.against_trainer(backbone, load_method("full", 4), 1, 2, Heads(backbone))
    assert found["value"] == 1  # both call the head once: a batch, and nothing beside it
    assert not backbone.model.training


def test_bench_measures_every_figure(monkeypatch):
    monkeypatch.setattr(bench, "TINY", "nano-opt")
    monkeypatch.setattr(bench, "MINI", "nano-opt")
    monkeypatch.setattr(bench, "SMALL", "./no-such-folder")
    monkeypatch.setattr(bench, "GENERATE", {"nano-opt": {1: 1.25}})
    monkeypatch.setattr(bench, "NEW_TOKENS", {"nano-opt": 4})
    monkeypatch.setattr(bench, "TARGETS", (2,))
    monkeypatch.setattr(bench, "CACHED", 4)
    monkeypatch.setattr(bench, "ROUNDS", 2)
    monkeypatch.setattr(bench, "TRAIN_ROUNDS", 2)
    monkeypatch.setattr(bench, "TRAIN_STEPS", {"nano-opt": 1})
    monkeypatch.setattr(bench, "SECONDS", {"nano-opt": 0})
    monkeypatch.setattr(bench, "BATCHES", (1, 3))
    monkeypatch.setattr(bench, "BATCH_TOKENS", 4)
    monkeypatch.setattr(bench, "BATCH_ROUNDS", 2)
    monkeypatch.setattr(bench, "against_trainer", missing_trainer)
    lines = []
    found = bench.run_bench(lines.append)
    rows = {row["name"]: row for row in json.loads(json.dumps(found, allow_nan=False))["rows"]}
    assert len(rows) == len(lines) - 1 == 25
    assert rows["nano-opt: decode over generate, batch 1"]["low"] == 1.25
    assert "tokens equal" in rows["nano-opt: decode over generate, batch 1"]["note"]
    assert "layers needed 2.00, run 2.00" in rows["nano-opt: unified 2x, speed-up over full at batch 3"]["note"]
    assert "flagged" in rows["toy with half the tokens: speed-up end to end"]["note"]
    assert "no model folder" in rows["./no-such-folder"]["note"] and rows["./no-such-folder"]["ok"] is None
    assert "no accelerate" in rows["nano-opt: training over transformers.Trainer, 8 references a prompt"]["note"]
    assert "threads" in found["environment"]


def test_the_trainer_gets_the_same_tokens_as_our_loop():
    backbone = random_model("nano-opt")
    pairs = races.random_pairs(backbone, 5)
    rows = [{"input_ids": p.prompt + p.output, "labels": [-100] * len(p.prompt) + p.output} for p in pairs]
    theirs, ours = races._collated(rows, backbone), collate(pairs, backbone.pad_id)
    assert int((theirs["labels"] != -100).sum()) == len(ours.targets) == sum(len(p.output) for p in pairs)
    with torch.no_grad():
        stock = backbone.model(**theirs).loss
        full = load_method("full", backbone.num_layers)
        loss = plan_loss(backbone, full.recipe(races.PROMPTS[1]), ours)
    assert torch.allclose(stock, loss, rtol=1e-4)


@pytest.mark.parametrize("references", [1, 8])
def test_both_sides_of_the_race_see_every_pair_once(references):
    backbone = random_model("nano-opt")
    pairs = races.random_pairs(backbone, races.BATCH * 3, references)
    assert len(pairs) == races.BATCH * 3 and len({tuple(p.prompt) for p in pairs}) == len(pairs) // references
    plan = batch_plan(pairs, races.BATCH, steps=3, seed=0, strands=STRANDS)
    assert sorted(i for batch in plan for i in batch) == list(range(len(pairs)))


def test_what_a_schedule_allows_in_training_by_hand():
    method = load_method("skipdecode", 4, min_layers=1, max_layers=3, prompt_size=0, max_length=3)
    pairs = [Pair([5] * 6, [7] * 3), Pair([5] * 2, [7] * 5)]  # budgets of the decode steps: 3, 2, 1, 1, …
    full = 4 * (6 + 2) + 4 * (2 + 4)
    planned = 4 * 6 + (3 + 2) + 4 * 2 + (3 + 2 + 1 + 1)
    assert races.allowed_speedup(pairs, method) == pytest.approx(full / planned)
    assert races.allowed_speedup(pairs, load_method("full", 4)) == 1


@pytest.mark.parametrize(
    "row, ok, text",
    [
        (bench.Row("a", 1.3, low=1.25), True, ">= 1.25"),
        (bench.Row("a", 1.2, low=1.25), False, "NO"),
        (bench.Row("a", 1.2, high=1.2), True, "<= 1.2"),
        (bench.Row("a", 1.2), None, "1.200"),
        (bench.Row("a", None, low=1.0, note="not measured: why"), None, "why"),
    ],
)
def test_a_row_says_what_was_wanted(row, ok, text):
    assert row.ok is ok and text in bench.as_line(row)
