"""Timing groups on a fake device: every second is known, so every number can be checked exactly."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from harness import EarlyExit, LayerSchedule, decode, load_method
from harness.backbone import PlanCache
from harness.backbone.tiny import tiny_backbone, tiny_prompts
from harness.decoding.clock import DeviceClock, using_clock
from harness.errors import SkipbenchError, UsageError
from harness.measuring import Entry, EntryFailed, measure_group, ratio, same_conditions
from harness.measuring.rounds import FEWEST, narrow, round_order, value
from harness.measuring.samples import kv_bytes_by_step

N = 6  # layers of the tiny GPT-2
KEYS, REST, HEAD, FIXED = 0.001, 0.003, 0.007, 0.005  # device seconds of a layer's start and rest, head, embedding
LAYER = KEYS + REST


class FakeDevice(DeviceClock):
    """A device with a queue: work takes its time only when waited for, and reading too early is an error."""

    def __init__(self) -> None:
        self.seconds, self.queue = 0.0, 0.0

    def work(self, seconds: float) -> None:
        self.queue += seconds

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds

    def synchronize(self, device) -> None:
        self.seconds, self.queue = self.seconds + self.queue, 0.0

    def now(self) -> float:
        assert not self.queue, "the clock was read before the device was done"
        return self.seconds


@dataclass(frozen=True)
class Half(LayerSchedule):
    name = "half"

    def layers(self, step: int) -> range:
        return range(self.num_layers // 2)


@dataclass(frozen=True)
class LeaveAt(EarlyExit):
    """Reads the head after each of the first `depth` layers, then leaves; `pause` is called once a step."""

    name = "leave_at"
    depth: int = 3
    pause: object = None

    def should_exit(self, layer: int, state) -> torch.Tensor:
        if layer == 0 and self.pause:
            self.pause()
        state.logits()
        return torch.full((len(state.hidden),), layer + 1 == self.depth)


@pytest.fixture
def device() -> FakeDevice:
    return FakeDevice()


def wired(device: FakeDevice, speed: float = 1.0, **options):
    """A tiny GPT-2 whose parts queue work on the fake device."""
    backbone = tiny_backbone("gpt2", **options)

    def costs(module, seconds: float) -> None:
        module.register_forward_pre_hook(lambda *_: device.work(seconds / speed))

    for layer in backbone.layers:
        costs(layer.ln_1, KEYS)
        costs(layer.mlp, REST)
    costs(backbone.lm_head, HEAD)
    costs(backbone.body.wte, FIXED)
    return backbone


def full() -> LayerSchedule:
    return load_method("full", N)


def numbers(group: dict, key: str) -> dict:
    return {name: entry["value"] for name, entry in group["methods"][key]["values"].items()}


def test_every_number_of_a_schedule_is_exact(device):
    backbone = wired(device)
    group = measure_group(
        [Entry("full", backbone, full()), Entry("half", backbone, Half(N))],
        tiny_prompts([3, 5]),
        9,
        repeats=2,
        clock=device,
    )
    whole, half = (FIXED + HEAD + layers * LAYER for layers in (N, N // 2))
    found = numbers(group, "half")
    assert found["decode_ms_per_token"] == pytest.approx(1e3 * half)
    assert found["speedup_wall"] == pytest.approx(whole / half)
    assert found["prefill_ms"] == pytest.approx(1e3 * whole)
    assert found["time_to_first_token_ms"] == pytest.approx(1e3 * whole)
    assert found["speedup_total"] == pytest.approx(9 * whole / (whole + 8 * half))
    assert found["throughput_with_prompt"] == pytest.approx((8 + 18) / (whole + 8 * half))
    assert found["speedup_layers"] == found["speedup_layers_batch"] == 2
    assert group["prompt_tokens"] == 4 and group["batch_size"] == 2 and group["dtype"] == "float64"
    assert group["methods"]["half"]["raw"]["decode_s"] == pytest.approx([8 * half] * group["repeats"])


def test_cost_model_finds_the_true_costs_and_predicts_schedules_and_exits(device):
    backbone = wired(device)
    entries = [Entry("full", backbone, full()), Entry("half", backbone, Half(N)), Entry("exit", backbone, LeaveAt(N))]
    group = measure_group(entries, tiny_prompts([4]), 6, repeats=2, clock=device)
    model = {name: part["value"] for name, part in group["cost_model"].items()}
    expected = {"t_layer_ms": LAYER, "t_head_ms": HEAD, "t_kv_ms": KEYS, "t_fixed_ms": FIXED, "t_ask_ms": 0}
    for name, seconds in expected.items():
        assert model[name] == pytest.approx(1e3 * seconds, abs=1e-9), name
    work = {"half": 3 * LAYER + HEAD, "exit": 3 * LAYER + 4 * HEAD + 3 * KEYS}
    for key, seconds in work.items():
        found = numbers(group, key)
        assert found["overhead_ms"] == pytest.approx(0, abs=1e-9)
        assert found["speedup_predicted"] == pytest.approx(found["speedup_wall"])
        assert found["speedup_bound"] == pytest.approx((N * LAYER + HEAD) / seconds)
    assert numbers(group, "exit")["speedup_wall"] < 1  # four heads of 7 ms: a slow-down, and predicted as one


def test_the_cost_model_says_nothing_of_methods_that_guess(device):
    """A pass of several positions is no step of one; half a pass a token would count the check negatively."""
    backbone = wired(device)
    draft = load_method("self_speculative", N, draft_depth=2, draft_tokens=3)
    group = measure_group([Entry("full", backbone, full()), Entry("draft", backbone, draft)], tiny_prompts([4]), 6,
                          repeats=2, clock=device)  # fmt: skip
    values = group["methods"]["draft"]["values"]
    for name in ("predicted_ms_per_token", "overhead_ms", "speedup_predicted", "speedup_bound"):
        assert values[name]["value"] is None and "methods that guess" in values[name]["note"], name
    assert values["speedup_wall"]["value"] > 0 and numbers(group, "full")["overhead_ms"] == pytest.approx(0, abs=1e-9)


def test_t13_shorter_output_is_no_speed_up_and_is_flagged(device):
    whole, short = wired(device), wired(device)
    prompts = tiny_prompts([5], seed=3)
    tokens = decode(whole, full(), *prompts, 21, force_length=True).tokens[0].tolist()
    end = next(i for i in range(8, 13) if tokens.index(tokens[i]) == i)  # a token that first comes about half way
    whole.model.generation_config.eos_token_id = 10_000
    short.model.generation_config.eos_token_id = tokens[end]
    entries = [Entry("full", whole, full()), Entry("toy", short, full())]
    group = measure_group(entries, prompts, 21, force_length=False, repeats=1, clock=device)
    found = numbers(group, "toy")
    assert found["speedup_wall"] == pytest.approx(1)
    assert found["speedup_total"] == pytest.approx(21 / (end + 1))
    assert found["output_tokens_mean"] == end + 1
    assert "shorter output" in group["methods"]["toy"]["flags"][0]
    assert not any("shorter" in flag for flag in group["methods"]["full"]["flags"])
    forced = measure_group(entries, prompts, 21, repeats=1, clock=device)
    assert numbers(forced, "toy")["speedup_total"] == pytest.approx(1)


def test_t14_overhead_is_the_time_that_layers_and_heads_do_not_explain(device):
    backbone = wired(device)
    slow = LeaveAt(N, pause=lambda: device.sleep(0.005))
    entries = [Entry("full", backbone, full()), Entry("exit", backbone, LeaveAt(N)), Entry("slow", backbone, slow)]
    group = measure_group(entries, tiny_prompts([4]), 6, repeats=2, clock=device)
    assert numbers(group, "slow")["overhead_ms"] == pytest.approx(5)
    assert numbers(group, "exit")["overhead_ms"] == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("new_tokens", [2, 5])
def test_t16_decode_rate_counts_the_tokens_inside_the_decode_time(device, new_tokens):
    group = measure_group(
        [Entry("full", wired(device), full())], tiny_prompts([4, 2, 3]), new_tokens, repeats=1, clock=device
    )
    step = FIXED + HEAD + N * LAYER
    assert group["methods"]["full"]["raw"]["decode_s"][0] == pytest.approx((new_tokens - 1) * step)
    assert numbers(group, "full")["tokens_per_s"] == pytest.approx(3 / step)


def test_t17_a_reading_before_the_device_is_done_is_caught(device):
    class Hasty(FakeDevice):
        def synchronize(self, device) -> None:
            pass

    hasty = Hasty()
    with pytest.raises(AssertionError, match="before the device was done"):
        measure_group([Entry("full", wired(hasty), full())], tiny_prompts([4]), 3, clock=hasty)
    with using_clock(device):
        assert decode(wired(device), full(), *tiny_prompts([4]), 3).timing.prefill_s > 0


@pytest.mark.parametrize("kind", ["cuda", "xpu", "mps"])
def test_t17_the_real_clock_waits_for_every_kind_of_device_a_suite_may_name(kind, monkeypatch):
    waited = []
    monkeypatch.setattr(getattr(torch, kind), "synchronize", lambda *which: waited.append(which))
    clock, named = DeviceClock(), torch.device(kind, 0)
    clock.read(torch.device("cpu"))
    assert waited == []
    clock.read(named)
    assert waited == ([()] if kind == "mps" else [(named,)])
    with pytest.raises(SkipbenchError, match="device meta cannot be waited for"):
        clock.read(torch.device("meta"))


def test_t18_the_first_call_is_kept_apart(device):
    backbone, slow = wired(device), [1.0]
    backbone.lm_head.register_forward_pre_hook(lambda *_: device.sleep(slow.pop() if slow else 0))
    group = measure_group([Entry("full", backbone, full())], tiny_prompts([4]), 4, repeats=3, clock=device)
    step = FIXED + HEAD + N * LAYER
    assert group["methods"]["full"]["raw"]["first_run_s"] == pytest.approx(1 + 4 * step)
    assert numbers(group, "full")["prefill_ms"] == pytest.approx(1e3 * step)
    assert max(group["methods"]["full"]["raw"]["call_s"]) == pytest.approx(4 * step)


def failing_at(call: int):
    """What fails at its `call`-th step, counted over all decode calls."""
    steps = iter(range(1, call))
    return lambda: next(steps, None) or [][0]


@pytest.mark.parametrize("call", [1, 8, 12, 18])  # in the warm-up, in the call for memory, and in rounds of 5 steps
def test_who_fails_while_being_timed_is_named(device, call):
    entries = [Entry("full", wired(device), full()), Entry("late", wired(device), LeaveAt(N, pause=failing_at(call)))]
    with pytest.raises(EntryFailed, match="late fails while it is timed: IndexError: list index") as caught:
        measure_group(entries, tiny_prompts([4]), 6, repeats=3, clock=device)
    assert caught.value.key == "late" and isinstance(caught.value.error, IndexError)
    group = measure_group(entries[:1], tiny_prompts([4]), 6, repeats=2, clock=device)
    assert numbers(group, "full")["decode_ms_per_token"] == pytest.approx(1e3 * (FIXED + HEAD + N * LAYER))


def test_without_the_baseline_there_is_no_group(device):
    entries = [Entry("full", wired(device), LeaveAt(N, pause=failing_at(3))), Entry("half", wired(device), Half(N))]
    with pytest.raises(IndexError):
        measure_group(entries, tiny_prompts([4]), 6, clock=device)


def test_t19_no_ratio_between_records_made_differently(device):
    entries = [Entry("full", wired(device), full()), Entry("half", wired(device, dtype=torch.bfloat16), Half(N))]
    with pytest.raises(UsageError, match="dtype float64 and bfloat16"):
        measure_group(entries, tiny_prompts([4]), 3, clock=device)
    group = measure_group(entries[:1], tiny_prompts([4]), 3, repeats=1, clock=device)
    record = group["methods"]["full"]
    assert same_conditions(record, record) and ratio(record, record) == 1
    other = {"dtype": "bfloat16", "attention": "eager", "batch_size": 8, "threads": -1, "device": "cuda",
             "decoding": "temperature=1"}  # fmt: skip
    for name, changed in other.items():
        for unlike in ({**record, name: changed}, {k: v for k, v in record.items() if k != name}):
            assert not same_conditions(record, unlike)
            with pytest.raises(SkipbenchError, match=f"differ in {name}"):
                ratio(record, unlike)
    with pytest.raises(SkipbenchError, match="overhead_ms"):
        ratio(record, record, "overhead_ms")  # 0 for the baseline


class SharedMachine(FakeDevice):
    """A clock beside a neighbour who takes `taken` seconds of every `period`-th call, processor and all."""

    def __init__(self, period: int, taken: float = 1.0) -> None:
        super().__init__()
        self.period, self.taken, self.calls, self.lost = period, taken, 0, 0.0

    def step(self, hidden: torch.Tensor) -> None:
        self.calls += hidden.shape[1] == 1
        if hidden.shape[1] == 1 and self.calls % self.period == 0:
            self.seconds += self.taken
            self.lost += self.taken

    def cpu(self, device) -> float:
        return self.now() - self.lost


def beside_a_neighbour(period: int) -> dict:
    device = SharedMachine(period)
    backbone = wired(device)
    backbone.body.ln_f.register_forward_pre_hook(lambda _, args: device.step(args[0]))
    entries = [Entry("full", backbone, full()), Entry("half", backbone, Half(N))]
    return measure_group(entries, tiny_prompts([4]), 6, repeats=12, width=-1, seconds=1e9, clock=device)


def test_rounds_in_which_a_neighbour_had_the_processor_are_left_out():
    values = beside_a_neighbour(period=43)["methods"]["half"]["values"]
    quiet = (FIXED + HEAD + N * LAYER) / (FIXED + HEAD + N // 2 * LAYER)
    assert values["speedup_wall"]["value"] == pytest.approx(quiet)
    assert values["speedup_wall"]["high"] == pytest.approx(quiet) and "flag" not in values["speedup_wall"]
    assert values["cpu_share"]["value"] < 1


def test_a_busy_machine_is_flagged_not_believed():
    entry = beside_a_neighbour(period=3)["methods"]["half"]
    assert entry["flags"] and "busy machine" in entry["flags"][0]
    for name in ("speedup_wall", "speedup_total", "decode_ms_per_token", "tokens_per_s"):
        assert "busy machine" in entry["values"][name]["flag"], name
    assert "flag" not in entry["values"]["speedup_layers"]


def test_the_cost_model_leaves_out_busy_rounds_and_is_flagged_where_too_few_are_quiet():
    overhead = beside_a_neighbour(period=83)["methods"]["half"]["values"]["overhead_ms"]
    assert overhead == pytest.approx(dict.fromkeys(("value", "low", "high"), 0), abs=1e-9), "and no flag"
    busy = beside_a_neighbour(period=3)
    for name in ("predicted_ms_per_token", "overhead_ms", "speedup_predicted", "speedup_bound"):
        assert "busy machine" in busy["methods"]["half"]["values"][name]["flag"], name
    assert "busy machine" in busy["cost_model"]["t_layer_ms"]["flag"]


@pytest.mark.parametrize("repeats, doubted", [(FEWEST - 1, True), (FEWEST, False)])
def test_too_few_rounds_are_flagged(device, repeats, doubted):
    entries = [Entry("full", wired(device), full())]
    group = measure_group(entries, tiny_prompts([4]), 3, repeats=repeats, width=-1, clock=device)
    found = group["methods"]["full"]
    for name in ("speedup_wall", "speedup_total", "decode_ms_per_token", "overhead_ms"):
        assert ("too few rounds" in found["values"][name].get("flag", "")) == doubted, name
    assert any("too few rounds" in flag for flag in found["flags"]) == doubted
    assert "flag" not in found["values"]["speedup_layers"]


class SmallCache(FakeDevice):
    """A device on which a step of more than `holds` layers takes a second more, as if they did not fit a cache."""

    def __init__(self, holds: int) -> None:
        super().__init__()
        self.holds, self.ran = holds, 0

    def layer(self) -> None:
        self.ran += 1

    def embed(self) -> None:
        self.ran = 0

    def head(self) -> None:
        self.work(1.0 if self.ran > self.holds else 0.0)


@pytest.mark.parametrize("holds, flagged", [(N // 2, True), (N, False)])
def test_a_speed_up_beyond_the_ratio_of_layers_is_flagged(holds, flagged):
    device = SmallCache(holds)
    backbone = wired(device)
    backbone.body.wte.register_forward_pre_hook(lambda *_: device.embed())
    for layer in backbone.layers:
        layer.mlp.register_forward_pre_hook(lambda *_: device.layer())
    backbone.lm_head.register_forward_pre_hook(lambda *_: device.head())
    entries = [Entry("full", backbone, full()), Entry("half", backbone, Half(N))]
    group = measure_group(entries, tiny_prompts([4]), 6, repeats=FEWEST, width=-1, seconds=1e9, clock=device)
    wall = group["methods"]["half"]["values"]["speedup_wall"]
    assert (wall["value"] > 2) == flagged
    assert ("faster than 2.00x fewer layers can explain" in wall.get("flag", "")) == flagged
    assert "flag" not in group["methods"]["full"]["values"]["speedup_wall"]


@given(st.integers(1, 9))
def test_t20_order_is_balanced(count):
    rounds = [round_order(count, number) for number in range(2 * count)]
    assert all(sorted(order) == list(range(count)) for order in rounds)
    for block in (rounds[:count], rounds[count:]):
        for place in range(count):
            assert sorted(order[place] for order in block) == list(range(count))
    followers = [pair for order in rounds for pair in zip(order, order[1:], strict=False)]
    assert {followers.count(pair) for pair in followers} <= {2}


def test_t20_drift_between_rounds_cancels_and_is_not_in_the_interval(device):
    backbone = wired(device)
    drift = iter(range(10**6))
    backbone.body.wte.register_forward_pre_hook(lambda *_: device.work(5e-6 * next(drift)))
    entries = [Entry("full", backbone, full()), Entry("same", backbone, full())]
    group = measure_group(entries, tiny_prompts([4]), 5, repeats=8, width=0, clock=device)
    times = group["methods"]["same"]["raw"]["decode_s"]
    found = group["methods"]["same"]["values"]["speedup_wall"]
    assert max(times) / min(times) > 1.02
    assert found["low"] <= 1 <= found["high"] and found["high"] - found["low"] < 0.02


def test_t20_one_repeat_has_no_interval(device):
    backbone = wired(device)
    entries = [Entry("full", backbone, full()), Entry("half", backbone, Half(N))]
    group = measure_group(entries, tiny_prompts([4]), 3, repeats=1, clock=device)
    assert group["repeats"] == 1
    for entry in group["methods"]["half"]["values"].values():
        assert entry["low"] is None and entry["high"] is None


def test_rounds_end_when_narrow_or_when_time_is_up(device):
    backbone = wired(device)
    entries = [Entry("full", backbone, full()), Entry("half", backbone, Half(N))]
    assert measure_group(entries, tiny_prompts([4]), 3, repeats=50, clock=device)["repeats"] == FEWEST
    start = device.now()
    group = measure_group(entries, tiny_prompts([4]), 3, repeats=50, width=-1, seconds=8, clock=device)
    assert 1 < group["repeats"] < 50 and device.now() - start <= 8 + 1e-9
    assert measure_group(entries, tiny_prompts([4]), 3, repeats=50, seconds=0, clock=device)["repeats"] == 1


def test_narrow_needs_enough_rounds():
    assert not narrow([1.0] * (FEWEST - 1), 0.05)
    assert narrow([1.0] * FEWEST, 0.05)
    assert not narrow([1.0, 2.0, 1.0, 2.0, 1.5, 1.0], 0.05)
    assert value([]) == {"value": None, "low": None, "high": None}


@pytest.mark.parametrize(
    "change, words",
    [({"new_tokens": 1}, "new_tokens >= 2"), ({"repeats": 0}, "repeats >= 1"), ({"keys": "aa"}, "different keys")],
)
def test_what_cannot_be_timed_is_refused(device, change, words):
    backbone = wired(device)
    entries = [Entry(key, backbone, full()) for key in change.get("keys", "ab")]
    with pytest.raises(UsageError, match=words):
        measure_group(
            entries, tiny_prompts([4]), change.get("new_tokens", 3), repeats=change.get("repeats", 2), clock=device
        )


def test_hindsight_is_not_timed(device):
    backbone = wired(device)
    entries = [Entry("full", backbone, full()), Entry("oracle", backbone, load_method("oracle_exit", N))]
    with pytest.raises(UsageError, match="hindsight"):
        measure_group(entries, tiny_prompts([4]), 3, clock=device)


METHODS = {
    "full": full(),
    "skipdecode": load_method("skipdecode", N, min_layers=2, max_layers=5, max_length=6),
    "multi_layer": load_method("multi_layer", N, exit_layers=2),
    "calm": load_method("calm", N, threshold=0.5),
}


@pytest.mark.parametrize("name", METHODS)
def test_kv_by_step_equals_what_the_layers_wrote(monkeypatch, name):
    written = []
    update = PlanCache.update

    def counting(self, keys, values, layer, *args, **kwargs):
        while len(written) <= self.lengths[0]:
            written.append(0)
        written[self.lengths[0]] += keys.numel() * keys.element_size() + values.numel() * values.element_size()
        return update(self, keys, values, layer, *args, **kwargs)

    monkeypatch.setattr(PlanCache, "update", counting)
    out = decode(tiny_backbone("gpt2"), METHODS[name], *tiny_prompts([4, 4]), 9, force_length=True)
    held = kv_bytes_by_step(out, METHODS[name], 4, 9)
    assert held == pytest.approx([sum(written[: 4 + step]) for step in range(1, 9)])
    assert max(held) == out.kv_bytes
