"""The decode loop: prefill, then one token a row and step."""

from __future__ import annotations

import numbers
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from ..backbone import Backbone, PlanCache, gates
from ..backbone.masked import additive
from ..errors import UsageError
from ..method import EarlyExit, LayerSchedule, Method, Speculative, check_kv_policy
from .clock import read_clock
from .output import DecodeOutput, Recorder, Timing
from .passes import prefill
from .prompts import PromptBatch, left_padded
from .sampling import PickedLogits, Sampling
from .speculation import speculative_decode
from .steppers import ExitStepper, ScheduleStepper, Stepper


def decode(
    backbone: Backbone,
    method: Method,
    input_ids: Tensor,
    attention_mask: Tensor | None = None,
    max_new_tokens: int = 64,
    force_length: bool = False,
    temperature: float = 0.0,
    top_p: float = 1.0,
    seed: int | Sequence[int] = 0,
) -> DecodeOutput:
    """Decode a batch of prompts with a method.

    Args:
        input_ids, attention_mask: [batch, tokens]; padded on either side.
        max_new_tokens: most output tokens a row, EOS included.
        force_length: ignore EOS, so that every row has `max_new_tokens`.
        temperature, top_p, seed: 0 is greedy; else each row draws from its own seed (`seed` + row, or one a row).

    Raises UsageError for input that does not fit the model or method, MissingKV if a closed method opens a hole,
    SkipbenchError if logits are no numbers.
    """
    max_new_tokens = _check_fit(backbone, method, max_new_tokens)
    prompts = left_padded(backbone, input_ids, attention_mask)
    _check_positions(backbone, prompts, max_new_tokens)
    sampling = Sampling(temperature, top_p, seed)
    with torch.inference_mode(), _evaluation_mode(backbone.model):
        if isinstance(method, Speculative):
            return speculative_decode(backbone, method, prompts, max_new_tokens, force_length, sampling)
        return _decode(backbone, method, prompts, max_new_tokens, force_length, sampling)


def _decode(backbone, method, prompts: PromptBatch, max_new_tokens, force_length, sampling) -> DecodeOutput:
    stepper = make_stepper(backbone, method, prompts.lengths, max_new_tokens)
    cache, device = stepper.cache, backbone.device
    recorder, picked = Recorder(len(prompts.lengths), backbone.pad_id, device), PickedLogits()
    rows = torch.arange(len(prompts.lengths), device=device)  # the batch's rows that still decode
    draws = sampling.draws(len(prompts.lengths), max_new_tokens)
    eos = torch.tensor([] if force_length else backbone.eos_ids, dtype=torch.long, device=device)

    with gates(backbone, stepper.visit):
        start = read_clock(device)
        logits = prefill(backbone, stepper, prompts)
        tokens = picked.note(logits, sampling.pick(logits, None if draws is None else draws[:, 0]))
        recorder.add_tokens(rows, tokens)
        prompt_layers = list(stepper.ran)
        prefilled = read_clock(device)
        for step in range(1, max_new_tokens):
            rows, tokens = _drop_finished(rows, tokens, eos, cache, recorder)
            if not len(rows):
                break
            logits = decode_one_token(backbone, stepper, step, tokens)
            recorder.add_step(rows, stepper.needed, list(stepper.ran), stepper.head_checks)
            tokens = picked.note(logits, sampling.pick(logits, None if draws is None else draws[rows.cpu(), step]))
            recorder.add_tokens(rows, tokens)
        else:
            _drop_finished(rows, tokens, eos, cache, recorder)
        done = read_clock(device)

    picked.check(backbone)
    timing = Timing(prefilled - start, done - prefilled, len(recorder.layers_run))
    return recorder.output(prompt_layers, timing, cache.nbytes)


def decode_one_token(backbone: Backbone, stepper: Stepper, step: int, tokens: Tensor) -> Tensor:
    """Feed output token `step` of each row [rows]; logits [rows, vocabulary] of the next one."""
    cache = stepper.cache
    cache.begin_step()
    positions = torch.tensor(cache.lengths, device=backbone.device).unsqueeze(1)
    stepper.begin_step(step, _step_mask(cache, positions, backbone.dtype))
    hidden = stepper.run_step(tokens.unsqueeze(1), positions)
    cache.commit()
    return backbone.head(hidden[:, -1])


def make_stepper(backbone: Backbone, method: Method, lengths: list[int], max_new_tokens: int) -> Stepper:
    """The stepper of a method with a cache just large enough for it."""
    steps, longest = max_new_tokens - 1, max(lengths)
    if isinstance(method, LayerSchedule):
        plan = method.plan(steps)
        last_step = [0] * backbone.num_layers
        for step, layers in enumerate(plan, start=1):
            for layer in layers:
                last_step[layer] = step
        if method.kv_policy != "closed":
            last_step = [steps] * backbone.num_layers
        cache = PlanCache(lengths, [longest + last for last in last_step], backbone.device)
        return ScheduleStepper(backbone, method, cache, plan)
    cache = PlanCache(lengths, [longest + steps] * backbone.num_layers, backbone.device)
    return ExitStepper(backbone, method, cache, steps)


def _step_mask(cache: PlanCache, positions: Tensor, dtype: torch.dtype) -> Tensor | None:
    """Additive mask [rows, 1, 1, slots]; None where every row sees all slots."""
    if cache.uniform:
        return None
    slots = torch.arange(cache.end, device=positions.device)
    return additive(slots <= positions[:, :, None, None], dtype)


def _drop_finished(rows: Tensor, tokens: Tensor, eos: Tensor, cache: PlanCache, recorder: Recorder):
    """Take rows whose last token is EOS out of the batch; the last rows move into their places."""
    if not len(eos):
        return rows, tokens
    finished = torch.isin(tokens, eos).tolist()
    if not any(finished):
        return rows, tokens
    recorder.end(rows[torch.tensor(finished, device=rows.device)])
    keep = _fill_gaps(finished)
    cache.select(keep)
    kept = torch.tensor(keep, dtype=torch.long, device=rows.device)
    return rows[kept], tokens[kept]


def _fill_gaps(finished: list[bool]) -> list[int]:
    """Row order after compaction: survivors stay in place, those from the end fill the gaps."""
    size = finished.count(False)
    movers = [row for row in range(size, len(finished)) if not finished[row]]
    return [movers.pop() if finished[place] else place for place in range(size)]


def _check_fit(backbone: Backbone, method: Method, max_new_tokens: int) -> int:
    """The number of new tokens as an int, or UsageError."""
    if not isinstance(backbone, Backbone):
        raise UsageError(f"decode takes a Backbone, not {type(backbone).__name__}; make one with Backbone(model)")
    if not isinstance(method, (LayerSchedule, EarlyExit, Speculative)):
        raise UsageError(f"decode takes a LayerSchedule, EarlyExit or Speculative method, not {method!r}")
    check_kv_policy(method)
    if method.num_layers != backbone.num_layers:
        raise UsageError(
            f"method {method.name!r} was made for {method.num_layers} layers, but model {backbone.name!r} has "
            f"{backbone.num_layers}"
        )
    whole = isinstance(max_new_tokens, numbers.Integral) and not isinstance(max_new_tokens, bool)
    if not whole or max_new_tokens < 1:
        raise UsageError(f"max_new_tokens must be a positive whole number, not {max_new_tokens!r}")
    return int(max_new_tokens)


def _check_positions(backbone: Backbone, prompts: PromptBatch, max_new_tokens: int) -> None:
    limit, longest = backbone.max_positions, max(prompts.lengths)
    if limit is not None and longest + max_new_tokens - 1 > limit:
        raise UsageError(
            f"a prompt of {longest} tokens and {max_new_tokens} new ones do not fit into the {limit} positions of "
            f"model {backbone.name!r}"
        )


@contextmanager
def _evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Dropout off; every module's own flag comes back afterwards."""
    training = [module for module in model.modules() if module.training]
    for module in training:
        module.training = False
    try:
        yield
    finally:
        for module in training:
            module.training = True
