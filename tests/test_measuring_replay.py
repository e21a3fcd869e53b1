"""An exit rule timed on shared weights leaves where its record says, and pays for every check."""

from __future__ import annotations

import pytest
import torch
from helpers.engine import rows_of

from harness import decode, load_method
from harness.backbone import Backbone
from harness.backbone.tiny import tiny_backbone, tiny_prompts
from harness.measuring import memory
from harness.measuring.replay import Replay, with_classifier
from harness.measuring.samples import Trace

N = 6


def calm(confidence: str, threshold: float, **options):
    return load_method("calm", N, confidence=confidence, threshold=threshold, **options)


@pytest.mark.parametrize("confidence, threshold", [("softmax", 0.4), ("state", 0.9), ("classifier", 0.55)])
def test_what_a_rule_did_elsewhere_is_done_again_with_the_same_work(confidence, threshold):
    own, shared = tiny_backbone("opt", seed=1), tiny_backbone("opt", seed=2)
    prompts, rule = tiny_prompts([4, 7, 5]), calm(confidence, threshold)
    recorded = decode(own, rule, *prompts, 9, force_length=True)
    exits = tuple(map(tuple, recorded.layers_needed.tolist()))
    assert len(set(sum(exits, ()))) > 1
    assert (
        decode(shared, rule, *prompts, 9, force_length=True).layers_needed.tolist() != recorded.layers_needed.tolist()
    )
    replay = Replay(N, rule, exits)
    out = decode(shared, replay, *prompts, 9, force_length=True)
    assert out.layers_needed.tolist() == recorded.layers_needed.tolist()
    assert out.layers_run == recorded.layers_run and out.head_checks == recorded.head_checks
    assert out.tokens.tolist() != recorded.tokens.tolist()  # they are the shared weights' own
    ours, theirs = (vars(Trace.of(o, m)) for o, m in ((out, replay), (recorded, rule)))
    assert ours == theirs


def test_a_shorter_record_starts_over_and_none_runs_every_layer():
    replay = Replay(N, calm("state", 0.9), ((2, 5), (), (6,)))
    out = decode(tiny_backbone("opt"), replay, *tiny_prompts([4, 4, 4]), 6, force_length=True)
    assert out.layers_needed.tolist() == [[2, 5, 2, 5, 2], [6] * 5, [6] * 5]


def test_every_check_is_computed_also_those_that_say_otherwise():
    backbone, heads = tiny_backbone("opt"), []
    backbone.lm_head.register_forward_pre_hook(lambda *_: heads.append(0))
    replay = Replay(N, calm("softmax", 1.0, min_exit_layer=2), ((4,),))  # by itself it would never leave
    out = decode(backbone, replay, *tiny_prompts([4]), 5, force_length=True)
    assert out.head_checks == [3] * 4  # after layers 2, 3 and 4 of six
    assert len(heads) == 5 + 3 * 4


def test_shared_weights_get_a_classifier_to_read_and_lose_nothing():
    bare = Backbone(tiny_backbone("opt").model, name="bare")
    lent = with_classifier(bare)
    assert lent.exit_classifier.shape == (17,) and bare.exit_classifier is None and lent.model is bare.model
    own = tiny_backbone("opt")
    assert with_classifier(own) is own
    rows = rows_of(decode(lent, Replay(N, calm("classifier", 0.9), ((3,),)), *tiny_prompts([4]), 4, force_length=True))
    assert rows[0][1] == [3, 3, 3]


def test_available_memory_is_what_the_system_says(monkeypatch, tmp_path):
    file = tmp_path / "meminfo"
    monkeypatch.setattr(memory, "_SYSTEM", file)
    cpu = torch.device("cpu")
    assert memory.available_memory(cpu) is None
    file.write_text("MemTotal:  9 kB\nMemAvailable:   3 kB\n")
    assert memory.available_memory(cpu) == 3 * 1024
    file.write_text("MemTotal:  9 kB\n")
    assert memory.available_memory(cpu) is None
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (5, 7))
    assert memory.available_memory(torch.device("cuda")) == 5
