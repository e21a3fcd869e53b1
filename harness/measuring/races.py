"""Training raced: our loop against `transformers.Trainer` on the same pairs, and a schedule against full depth."""

from __future__ import annotations

import dataclasses
import random
import tempfile
from collections.abc import Callable, Sequence

import torch

from ..backbone import Backbone
from ..decoding.clock import DeviceClock
from ..errors import UsageError
from ..method import LayerSchedule
from ..training import Recipe
from ..training.batches import Pair
from ..training.loop import has_bf16, train
from .opponents import alternate
from .rounds import value

BATCH = 32
PROMPTS = 20, 50  # shortest and longest, tokens
SHARE = 0.5, 1.0  # of an output's length in its prompt's: long prompts have long outputs, as in E2E and translation


def random_pairs(backbone: Backbone, count: int, references: int = 1, seed: int = 0) -> list[Pair]:
    """Seeded pairs of ids of mixed lengths; `references` neighbours share a prompt."""
    rng = random.Random(seed)
    vocabulary = backbone.lm_head.weight.shape[0]

    def ids(length: int) -> list[int]:
        return [rng.randrange(3, vocabulary) for _ in range(length)]

    prompts = [ids(rng.randint(*PROMPTS)) for _ in range(-(-count // references))]
    pairs = [Pair(prompt, ids(int(len(prompt) * rng.uniform(*SHARE)))) for prompt in prompts for _ in range(references)]
    return pairs[:count]


def against_trainer(
    backbone: Backbone, full: LayerSchedule, steps: int, rounds: int, clock: DeviceClock, references: int = 1
) -> dict:
    """Output tokens trained a second over those of `transformers.Trainer`, with an interval.

    Both see every pair once, in batches of like length, with fused AdamW and bf16 where the device has it; whole runs
    are timed, but not the making of the Trainer. Trains the model in place. Raises UsageError where the Trainer's own
    requirements are missing.
    """
    pairs = random_pairs(backbone, BATCH * steps, references)
    trainers = iter([_trainer(backbone, pairs) for _ in range(rounds + 1)])  # one for the warm-up
    calls = {
        "ours": lambda: _train(backbone, pairs, full, steps),
        "theirs": lambda: next(trainers).train(),
    }
    spans = _race(backbone, calls, rounds, clock)
    return value([b / a for a, b in zip(spans["ours"], spans["theirs"], strict=True)])


def against_full(
    backbone: Backbone, full: LayerSchedule, method: LayerSchedule, steps: int, rounds: int, clock: DeviceClock
) -> dict:
    """How much faster a schedule trains than full depth, with an interval, and `allowed`, what its layers allow."""
    pairs = random_pairs(backbone, BATCH * steps)
    calls = {
        "full": lambda: _train(backbone, pairs, full, steps),
        "method": lambda: _train(backbone, pairs, method, steps),
    }
    spans = _race(backbone, calls, rounds, clock)
    ratios = [a / b for a, b in zip(spans["full"], spans["method"], strict=True)]
    return value(ratios) | {"allowed": allowed_speedup(pairs, method)}


def allowed_speedup(pairs: Sequence[Pair], method: LayerSchedule) -> float:
    """Layers times tokens at full depth over those under the method's plan: prompts run in full, outputs in part."""
    prompt = len(tuple(method.prompt_layers()))
    longest = max(len(pair.output) for pair in pairs)
    step_layers = [len(layers) for layers in method.plan(longest - 1)]
    full = sum(method.num_layers * (len(p.prompt) + len(p.output) - 1) for p in pairs)
    planned = sum(prompt * len(p.prompt) + sum(step_layers[: len(p.output) - 1]) for p in pairs)
    return full / planned


def _train(backbone: Backbone, pairs: Sequence[Pair], method: LayerSchedule, steps: int) -> None:
    train(backbone, pairs, method.recipe(PROMPTS[1]), Recipe(steps, BATCH, learning_rate=1e-4), seed=0)


def _race(backbone: Backbone, calls: dict[str, Callable], rounds: int, clock: DeviceClock) -> dict[str, list[float]]:
    def timed(call: Callable) -> float:
        start = clock.read(backbone.device)
        call()
        return clock.read(backbone.device) - start

    try:
        return alternate({name: lambda call=call: timed(call) for name, call in calls.items()}, rounds)
    finally:
        backbone.model.eval()


def _trainer(backbone: Backbone, pairs: Sequence[Pair]):
    from transformers import Trainer, TrainingArguments

    known = {field.name for field in dataclasses.fields(TrainingArguments)}
    grouping = {"group_by_length": True}  # its name until transformers 5
    if "train_sampling_strategy" in known:
        grouping = {"train_sampling_strategy": "group_by_length"}
    try:
        arguments = TrainingArguments(
            tempfile.gettempdir(), per_device_train_batch_size=BATCH, num_train_epochs=1, learning_rate=1e-4,
            optim="adamw_torch_fused", bf16=has_bf16(backbone.device), use_cpu=backbone.device.type == "cpu",
            save_strategy="no", logging_strategy="no", report_to="none", disable_tqdm=True, **grouping,
        )  # fmt: skip
    except ImportError as error:
        raise UsageError(f"transformers.Trainer cannot run here: {str(error).strip().splitlines()[0]}") from error
    data = [{"input_ids": p.prompt + p.output, "labels": [-100] * len(p.prompt) + p.output} for p in pairs]
    return Trainer(backbone.model, arguments, train_dataset=data, data_collator=lambda rows: _collated(rows, backbone))


def _collated(rows: list[dict], backbone: Backbone) -> dict:
    """Rows padded on the right, as stock fine-tuning does; labels only where an output token stands."""

    def padded(values: list[list[int]], fill: int) -> torch.Tensor:
        tensors = [torch.tensor(v) for v in values]
        return torch.nn.utils.rnn.pad_sequence(tensors, batch_first=True, padding_value=fill)

    ids, labels = ([row[name] for row in rows] for name in ("input_ids", "labels"))
    mask = [[1] * len(row) for row in ids]
    return {
        "input_ids": padded(ids, backbone.fill_id),
        "labels": padded(labels, -100),
        "attention_mask": padded(mask, 0),
    }
