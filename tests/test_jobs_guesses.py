"""What is recorded and counted of methods that guess: in runs, in timing groups, and in low precision."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from helpers.engine import tiny
from helpers.guessing import guesser

from harness import decode, load_method
from harness.backbone.tiny import tiny_backbone, tiny_prompts
from harness.decoding import agreement
from harness.decoding.agreement import Agreement, batch_agreement, greedy_agreement
from harness.jobs.guesses import guess_statistics
from harness.jobs.quality import _value, layer_statistics
from harness.measuring import Entry, measure_group
from harness.measuring.reads import Reads, weight_reads
from harness.measuring.samples import Trace, kv_bytes_by_step


def test_statistics_are_ratios_of_sums():
    records = [
        {"layers_needed": [4] * 6, "layers_run": [2] * 8, "guesses": 5, "accepted": 3},
        {"layers_needed": [4] * 2, "layers_run": [2] * 4, "guesses": 1, "accepted": 0},
    ]
    reads = weight_reads(tiny("looped_opt"))
    found = {name: stats.value for name, stats in guess_statistics(records, reads).items()}
    assert found["acceptance_rate"] == 3 / 6 and found["passes_per_token"] == 12 / 8
    assert found["weight_reads_per_token"] == 12 * (2 * reads.layer + reads.head) / 8


def test_outputs_of_one_token_have_no_speed():
    record = {"layers_needed": [], "layers_run": [], "guesses": 0, "accepted": 0}
    found = {**layer_statistics([record] * 2, 4), **guess_statistics([record] * 2, Reads(1, 1, 1))}
    for name in ("speedup_layers", "speedup_layers_batch", "acceptance_rate", "passes_per_token"):
        value = _value(found[name], 0)
        assert value["value"] is value["low"] is None and value["note"].startswith("nothing to count"), name


def test_a_trace_counts_passes_by_output_token():
    backbone, new_tokens = tiny("looped_opt"), 13
    prompts = tiny_prompts([3, 5])
    full = load_method("full", 6)
    never = guesser(backbone, prompts, new_tokens, 0.0)
    always = guesser(backbone, prompts, new_tokens, 1.0)
    sequential, slow, fast = (
        Trace.of(decode(backbone, m, *prompts, new_tokens, force_length=True), m) for m in (full, never, always)
    )
    assert (sequential.layers, sequential.heads, sequential.acceptance) == (6, 1, None)
    assert (slow.steps, slow.layers, slow.heads, slow.acceptance) == (12, 6, 3, 0)  # 3 steps of 2 layers a token
    assert (fast.layers, fast.heads, fast.acceptance) == (14 * 2 / 12, 14 / 12, 1)
    reads = weight_reads(backbone)
    assert reads.of(slow) == reads.of(sequential) + 2 * reads.head
    out = decode(backbone, always, *prompts, new_tokens, force_length=True)
    held = kv_bytes_by_step(out, always, 5, new_tokens)
    assert len(held) == 12 and held[-1] == out.kv_bytes


def test_a_timing_group_has_no_layer_counts_of_a_method_that_guesses():
    backbone = tiny_backbone("looped_opt", dtype=torch.float32)
    prompts = tiny_prompts([3, 5])
    entries = [Entry(name, backbone, load_method(name, 6)) for name in ("full", "speed", "self_speculative")]
    group = measure_group(entries, prompts, 6, repeats=1, seconds=0)
    for name in ("speed", "self_speculative"):
        values = group["methods"][name]["values"]
        assert not {"speedup_layers", "speedup_layers_batch"} & set(values)
        assert 0 <= values["acceptance_rate"]["value"] <= 1 and values["passes_per_token"]["value"] >= 1
        assert values["speedup_reads"]["value"] > 0 and values["speedup_wall"]["value"] > 0
    assert "acceptance_rate" not in group["methods"]["full"]["values"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_low_precision_agreement_is_said(dtype):
    backbone = tiny_backbone("looped_llama", dtype=dtype)
    found = greedy_agreement(backbone, load_method("speed", 6), *tiny_prompts([3, 5, 2]), 12)
    assert found.rows == 3 and 0 < found.equal_tokens <= found.tokens <= 36
    assert len(found.margins) == found.rows - found.equal_rows


def test_a_row_that_differs_in_a_batch_is_counted(monkeypatch):
    backbone, prompts, real = tiny("opt"), tiny_prompts([3, 5, 2]), agreement.decode
    method = load_method("multi_layer", backbone.num_layers, exit_layers=2)
    true = real(backbone, method, *prompts, 6)
    lengths = true.lengths.tolist()
    assert batch_agreement(backbone, method, *prompts, 6) == Agreement(3, 3, sum(lengths), sum(lengths), ())

    def told(backbone, method, ids, *args):
        out = real(backbone, method, ids, *args)
        if len(ids) == 1:
            return out
        tokens = out.tokens.clone()
        tokens[2, 1] = (tokens[2, 1] + 1) % 31
        return dataclasses.replace(out, tokens=tokens)

    monkeypatch.setattr(agreement, "decode", told)
    equal = sum(lengths) - lengths[2] + 1
    assert batch_agreement(backbone, method, *prompts, 6) == Agreement(3, 2, sum(lengths), equal, ())


def test_the_first_difference_and_its_margin(monkeypatch):
    """A run that says another token at one place: rows and tokens up to it, and how close the call was there."""
    backbone, prompts = tiny("looped_opt"), tiny_prompts([3, 5])
    full, real = load_method("full", 6), agreement.decode
    true = real(backbone, full, *prompts, 6)
    other = true.tokens.clone()
    other[1, 2] = (other[1, 2] + 1) % 31

    def told(backbone, method, *args):
        out = real(backbone, full, *args)
        return dataclasses.replace(out, tokens=other) if method.name == "speed" else out

    monkeypatch.setattr(agreement, "decode", told)
    found = greedy_agreement(backbone, load_method("speed", 6), *prompts, 6)
    lengths = true.lengths.tolist()
    ids = torch.cat((prompts[0][1], true.tokens[1, :2])).unsqueeze(0)
    with torch.no_grad():
        best = backbone.model(ids).logits[0, -1].topk(2).values
    assert found == Agreement(2, 1, sum(lengths), lengths[0] + 2, (pytest.approx(float(best[0] - best[1]), abs=1e-5),))
    assert str(found).startswith(
        f"1 of 2 outputs equal, {lengths[0] + 2} of {sum(lengths)} tokens; the two best logits"
    )
    assert str(Agreement(2, 2, 9, 9, ())) == "2 of 2 outputs equal, 9 of 9 tokens"
