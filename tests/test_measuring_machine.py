"""Weight reads of known models, peak memory of real allocations, the environment record, the cost model's algebra."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM, LlamaConfig, OPTConfig

from harness import Backbone
from harness.backbone.tiny import TINY_KINDS, tiny_backbone
from harness.measuring import environment, peak_memory, weight_reads
from harness.measuring.costs import CostModel, Costs, solve
from harness.measuring.machine import git_commit
from harness.measuring.probes import probes
from harness.measuring.reads import speedup_reads
from harness.measuring.samples import Trace

CPU = torch.device("cpu")
CONFIGS = {
    "opt-125m": OPTConfig(),  # its defaults are that model
    "smollm2-135m": LlamaConfig(vocab_size=49152, hidden_size=576, intermediate_size=1536, num_hidden_layers=30,
                                num_attention_heads=9, num_key_value_heads=3, tie_word_embeddings=True),
}  # fmt: skip


def trace(layers: float, heads: float = 1, keys_only: float = 0, asks: float = 0) -> Trace:
    return Trace(10, 1, 11, layers, keys_only, heads, asks, layers, 0)


@pytest.mark.parametrize("name, layers_a_head", [("opt-125m", 5.5), ("smollm2-135m", 8.0)])
def test_a_head_weighs_as_many_layers_as_known(name, layers_a_head):
    with torch.device("meta"):
        reads = weight_reads(Backbone(AutoModelForCausalLM.from_config(CONFIGS[name])))
    assert reads.head / reads.layer == pytest.approx(layers_a_head, abs=0.06)


def test_reads_of_opt_125m_by_hand():
    with torch.device("meta"):
        reads = weight_reads(Backbone(AutoModelForCausalLM.from_config(CONFIGS["opt-125m"])))
    width, inner = 768, 3072
    attention, feed_forward, norms = 4 * (width + 1) * width, (width + 1) * inner + (inner + 1) * width, 4 * width
    assert reads.layer == attention + feed_forward + norms
    assert reads.keys == 2 * (width + 1) * width
    assert reads.head == 50272 * width + 2 * width
    # half the layers of twelve, and a head at each of the first six
    assert speedup_reads(reads, trace(6), trace(12)) == pytest.approx((12 + 5.45) / (6 + 5.45), abs=0.01)
    assert speedup_reads(reads, trace(6, heads=7, keys_only=6), trace(12)) < 1


@pytest.mark.parametrize("kind", TINY_KINDS)
def test_keys_and_values_are_found_in_every_family(kind):
    backbone = tiny_backbone(kind)
    reads = weight_reads(backbone)
    heads = getattr(backbone.config, "num_key_value_heads", None) or backbone.config.num_attention_heads
    width = backbone.config.hidden_size
    states = 2 * heads * width // backbone.config.num_attention_heads
    assert reads.keys in (states * width, states * (width + 1))  # without and with a bias
    assert reads.keys < reads.layer


def test_peak_memory_of_a_call_is_its_own():
    big, small = 64 << 20, 1 << 20
    first = peak_memory(lambda: torch.ones(big, dtype=torch.uint8), CPU)
    if first is None:
        pytest.skip("this system does not tell the peak of its memory")
    second = peak_memory(lambda: torch.ones(small, dtype=torch.uint8), CPU)
    assert 0.95 * big < first < 1.25 * big
    assert second < big // 4


def test_peak_memory_on_cuda_starts_fresh(monkeypatch):
    allocated = {"now": 100, "peak": 900}
    monkeypatch.setattr(torch.cuda, "synchronize", lambda device: None)
    monkeypatch.setattr(torch.cuda, "reset_peak_memory_stats", lambda device: allocated.update(peak=allocated["now"]))
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: allocated["now"])
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda device: allocated["peak"])
    assert peak_memory(lambda: allocated.update(peak=150), torch.device("cuda")) == 50


def test_environment_says_what_a_number_was_measured_on():
    record = environment()
    assert record["threads"] == torch.get_num_threads() and record["cores"] >= 1
    assert record["versions"]["torch"] == torch.__version__ and record["cpu"] and record["os"]


def test_environment_does_not_import_torch():
    code = "import sys; from harness.measuring import environment; environment(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


def test_commit_and_changes_of_a_checkout(tmp_path):
    assert git_commit(tmp_path) == ("unknown", None)

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "-q")
    (tmp_path / "file").write_text("one")
    git("add", "file")
    git("commit", "-q", "-m", "one")
    assert git_commit(tmp_path) == (git("rev-parse", "HEAD"), False)
    (tmp_path / "notes").write_text("not tracked")
    assert git_commit(tmp_path)[1] is False
    (tmp_path / "file").write_text("two")
    assert git_commit(tmp_path)[1] is True


def step_times(costs: Costs, num_layers: int) -> dict[str, float]:
    """What the baseline and the probes would take; each probe's work counted here by hand."""
    methods = probes(num_layers)
    depth, reads = methods["fewer"].depth, methods["read"].reads
    left = num_layers - depth
    base = costs.t_fixed + costs.t_head
    return {
        "full": base + num_layers * costs.t_layer,
        "fewer": base + depth * costs.t_layer,
        "keys": base + depth * costs.t_layer + left * costs.t_kv,
        "asked": base + num_layers * costs.t_layer + (num_layers - 1) * costs.t_ask,
        "read": base + num_layers * costs.t_layer + (num_layers - 1) * costs.t_ask + reads * costs.t_head,
    }


positive = st.floats(0.01, 10)


@given(st.integers(2, 40), st.builds(Costs, *[positive] * 6))
def test_costs_are_found_from_the_probes(num_layers, true):
    found = solve(step_times(true, num_layers), num_layers, true.t_confidence)
    for name, value in vars(true).items():
        assert getattr(found, name) == pytest.approx(value, rel=1e-6, abs=1e-7), name


def test_costs_under_noise_have_intervals_that_cover_the_truth():
    true, n, rounds = Costs(1.0, 2.0, 0.3, 0.05, 0.02, 1.2), 12, 15
    random = np.random.default_rng(0)
    exact = {**step_times(true, n), "m": 9 * true.t_layer + true.t_head + true.t_fixed + 0.5}
    drift = 1 + 0.2 * random.random(rounds)  # of the machine, shared by a round
    noisy = {key: (ms * drift * (1 + 0.002 * random.standard_normal(rounds))).tolist() for key, ms in exact.items()}
    model = CostModel(noisy, n, true.t_confidence)
    values = model.values("m", trace(9), trace(12))
    assert values["overhead_ms"]["low"] < 0.5 * np.median(drift) < values["overhead_ms"]["high"]
    assert values["speedup_predicted"]["value"] == pytest.approx(15.2 / 12.2, rel=0.01)
    assert values["speedup_bound"]["value"] == pytest.approx(14 / 11, rel=0.02)
    part = model.parts()["t_layer_ms"]
    assert part["low"] < true.t_layer * np.median(drift) < part["high"]


def test_the_bound_is_the_prediction_without_the_fixed_part():
    """What an early exit asks and compares is its work: no engine could leave it out."""
    true, n = Costs(1.0, 2.0, 0.3, 0.05, 0.02, 1.2), 12
    model = CostModel({key: [ms] for key, ms in step_times(true, n).items()} | {"m": [9.0]}, n, true.t_confidence)
    asked, whole = trace(5, heads=4, keys_only=7, asks=5), trace(12)
    values = model.values("m", asked, whole)
    ours = 5 * 1.0 + 4 * 2.0 + 7 * 0.3 + 5 * 0.05 + 3 * 0.02
    assert values["speedup_bound"]["value"] == pytest.approx((12 + 2) / ours)
    assert values["speedup_predicted"]["value"] == pytest.approx((12 + 2 + 1.2) / (ours + 1.2))


def test_no_probes_without_a_layer_to_leave_out():
    assert probes(1) == {}
