"""One quality run: decode a split batch by batch, record every example, then score."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch

from ..backbone import Backbone
from ..decoding import DecodeOutput, decode
from ..measuring.reads import weight_reads
from ..method import Method
from ..results import Run, RunFiles
from ..scoring.api import all_statistics
from ..scoring.names import Unavailable
from ..scoring.statistics import Statistics, interval, mean_of, ratio
from ..suite import DecodingSpec
from ..task import EncodedPrompt, Example, Task, decode_output, encode_output, encode_prompt
from ..training.batches import Pair
from ..tuning.teacher import TeacherForced, teacher_forced
from .guesses import guess_statistics, guessed
from .pieces import output_pieces
from .scorer import scorer


class Item(NamedTuple):
    """One example ready to decode."""

    example: Example
    prompt: EncodedPrompt


def encode_split(task: Task, split: str, limit: int | None, tokenizer, max_prompt: int) -> list[Item]:
    """The split's examples with their prompts, shortest prompt first, so that batches hold prompts of like length."""
    examples = list(task.load(split))[:limit]
    items = [Item(example, encode_prompt(task, example, tokenizer, max_prompt)) for example in examples]
    return sorted(items, key=lambda item: len(item.prompt.ids))  # stable


def batches_of(items: Sequence[Item], size: int) -> list[Sequence[Item]]:
    """The batches of a run: fixed by the items and the size alone."""
    return [items[i : i + size] for i in range(0, len(items), size)]


def spread(items: Sequence[Item], count: int) -> list[Item]:
    """At most `count` of the items, evenly spaced, so that short and long prompts have their share."""
    if count >= len(items):
        return list(items)
    return [items[i * len(items) // count] for i in range(count)]


def padded(items: Sequence[Item], fill_id: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Left-padded ids and mask [batch, tokens]."""
    width = max(len(item.prompt.ids) for item in items)
    ids = torch.full((len(items), width), fill_id, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for row, item in enumerate(items):
        ids[row, width - len(item.prompt.ids) :] = torch.tensor(item.prompt.ids)
        mask[row, width - len(item.prompt.ids) :] = 1
    return ids, mask


def decode_split(
    run: Run,
    backbone: Backbone,
    method: Method,
    items: Sequence[Item],
    options: DecodingSpec,
    max_new_tokens: int,
    seed: int,
    advance: Callable[[int, int], None],
) -> None:
    """Decode what the run has not recorded yet; each batch is recorded whole. `advance(done, all)` counts examples."""
    done = run.done_ids()
    for number, batch in enumerate(batches_of(items, options.batch_size)):
        if batch[0].example.id not in done:
            run.append(decode_batch(backbone, method, batch, number, options, max_new_tokens, seed))
        advance(min((number + 1) * options.batch_size, len(items)), len(items))


def decode_batch(
    backbone: Backbone,
    method: Method,
    batch: Sequence[Item],
    number: int,
    options: DecodingSpec,
    max_new_tokens: int,
    seed: int,
) -> list[dict]:
    """The records of one batch, decoded."""
    ids, mask = padded(batch, backbone.fill_id)
    seeds = [_row_seed(seed, item.example.id) for item in batch]
    sampling = {"temperature": options.temperature, "top_p": options.top_p, "seed": seeds}
    out = decode(backbone, method, ids, mask, max_new_tokens, **sampling)
    return list(_records(batch, number, out, backbone))


def _row_seed(seed: int, example_id: str) -> int:
    """A sampling seed that depends on the example alone, not on its batch."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{example_id}".encode()).digest()[:6], "big")


def _records(batch: Sequence[Item], number: int, out: DecodeOutput, backbone: Backbone):
    ran, guessing = [len(layers) for layers in out.layers_run], out.speculation
    for row, (example, prompt) in enumerate(batch):
        length = int(out.lengths[row])
        passes = length - 1 if guessing is None else int(guessing.passes[row])
        ended = bool(out.ended[row])
        tokens = out.tokens[row, :length].tolist()
        record = {
            "id": example.id,
            "batch": number,
            "prompt_hash": hashlib.sha256(str(prompt.ids).encode()).hexdigest(),
            "prompt_tokens": len(prompt.ids),
            "truncated": prompt.truncated,
            "output": (text := decode_output(tokens[: length - 1] if ended else tokens, backbone.tokenizer)),
            "pieces": output_pieces(tokens, backbone.tokenizer, text),
            "tokens": tokens,
            "length": length,
            "ended": ended,
            "layers_needed": out.layers_needed[row, : length - 1].tolist(),
            "layers_run": ran[:passes],
            "head_checks": sum(out.head_checks[:passes]),
        }
        if guessing is not None:
            record |= {"guesses": int(guessing.guesses[row]), "accepted": int(guessing.accepted[row])}
        yield record


# -- scoring --------------------------------------------------------------------------------------------------------


def score_run(
    run: Run, task: Task, items: Sequence[Item], backbone: Backbone, seed: int, forced: TeacherForced
) -> list[str]:
    """Score a fully decoded run and mark it complete; returns a sentence for each metric that is unavailable here."""
    records = run.records()
    statistics = output_statistics(run, task, [item.example for item in items])
    if guessed(records):
        statistics |= guess_statistics(records, weight_reads(backbone))
    else:
        statistics |= layer_statistics(records, backbone.num_layers)
    statistics |= _token_statistics(records)
    values = {name: _value(stats, seed) for name, stats in statistics.items()}
    values |= _plain_values(records, backbone.num_layers, forced)
    by_position = {"loss_by_position": forced.loss_by_position(), "tokens_by_position": forced.counts()}
    run.finish(values, per_example=_per_example(statistics), scorer=scorer(), **by_position)
    lacking = ((name, stats) for name, stats in statistics.items() if isinstance(stats, Unavailable))
    return [f"metric {name!r} is unavailable: {reason}" for name, reason in lacking]


def score_floor(run: Run, task: Task, examples: Sequence[Example]) -> None:
    """Score trivial outputs and mark their run complete."""
    values, per_example = output_values(run, task, examples, 0)
    run.finish(values, per_example=per_example, scorer=scorer())


def output_values(run: Run | RunFiles, task: Task, examples: Sequence[Example], seed: int) -> tuple[dict, dict]:
    """The task's metrics of the recorded outputs, as scores.json holds them: (values, per_example)."""
    statistics = output_statistics(run, task, examples)
    return {name: _value(stats, seed) for name, stats in statistics.items()}, _per_example(statistics)


def output_statistics(
    run: Run | RunFiles, task: Task, examples: Sequence[Example]
) -> dict[str, Statistics | Unavailable]:
    """The run's metrics of the recorded outputs, matched with their references by id."""
    known = {example.id: example for example in examples}
    records = run.records()
    matched = [known[record["id"]] for record in records]
    return all_statistics(
        [record["output"] for record in records],
        [example.references for example in matched],
        run.config["metrics"],
        task.language,
        source_texts(task, matched),
    )


def source_texts(task: Task, examples: Sequence[Example]) -> list[str] | None:
    """What the outputs were made from, for metrics that ask: the texts of the task's document field, if it has one."""
    texts = [example.fields.get(task.document_field) for example in examples]
    return texts if all(isinstance(text, str) for text in texts) else None


def _per_example(statistics: dict[str, Statistics | Unavailable]) -> dict[str, list[float]]:
    return {name: stats.per_example() for name, stats in statistics.items() if isinstance(stats, Statistics)}


def layer_statistics(records: Sequence[dict], num_layers: int) -> dict[str, Statistics]:
    """Layer-count speed-ups as ratios of sums over the split; the prompt and the first output token are left out."""
    full = np.array([num_layers * len(r["layers_needed"]) for r in records], dtype=float)
    needed = np.array([sum(r["layers_needed"]) for r in records], dtype=float)
    ran = np.array([sum(r["layers_run"]) for r in records], dtype=float)
    note = "layers of the full model over layers {}, decode steps only, ratio of sums"
    return {
        "speedup_layers": Statistics(np.stack([full, needed], 1), ratio, note.format("needed by the row")),
        "speedup_layers_batch": Statistics(np.stack([full, ran], 1), ratio, note.format("run by the batch")),
    }


def _token_statistics(records: Sequence[dict]) -> dict[str, Statistics]:
    return {
        "output_tokens": mean_of(np.array([r["length"] for r in records]), "mean, EOS included"),
        "prompt_tokens": mean_of(np.array([r["prompt_tokens"] for r in records]), "mean"),
    }


def _plain_values(records: Sequence[dict], num_layers: int, forced: TeacherForced) -> dict[str, dict]:
    speeds = [num_layers * len(r["layers_needed"]) / sum(r["layers_needed"]) for r in records if r["layers_needed"]]
    numbers = {
        **({} if guessed(records) else {"speedup_layers_std": float(np.std(speeds)) if speeds else None}),
        "truncated_prompts": sum(r["truncated"] for r in records),
        "unfinished_outputs": sum(not r["ended"] for r in records),
        "token_accuracy": forced.accuracy,
        "loss": forced.loss,
    }
    return {name: {"value": value, "low": None, "high": None, "note": None} for name, value in numbers.items()}


def _value(stats: Statistics | Unavailable, seed: int) -> dict:
    if isinstance(stats, Unavailable):
        return {"value": None, "low": None, "high": None, "note": str(stats)}
    if math.isnan(stats.value):
        return {"value": None, "low": None, "high": None, "note": f"nothing to count: {stats.signature}"}
    low, high = interval(stats, seed=seed) or (None, None)
    return {"value": stats.value, "low": low, "high": high, "note": stats.signature}


def teacher_forced_split(
    backbone: Backbone, method: Method, items: Sequence[Item], max_new_tokens: int, batch_size: int
) -> TeacherForced:
    """Teacher-forced scores of each example's first reference."""
    pairs = reference_pairs(backbone, items, max_new_tokens)
    return teacher_forced(backbone, method, pairs, max_new_tokens, batch_size)


def reference_pairs(backbone: Backbone, items: Sequence[Item], max_new_tokens: int) -> list[Pair]:
    """Each example's prompt with its first reference."""
    return [
        Pair(item.prompt.ids, encode_output(item.example.references[0], backbone.tokenizer)[:max_new_tokens])
        for item in items
    ]
