"""Lossless decoding by guessing: the driver of both ways, and what it puts out."""

from __future__ import annotations

import torch

from ..backbone import Backbone, gates
from ..errors import UsageError
from ..method import Speculative, check_temperature
from .clock import read_clock
from .drafting import Drafting
from .guessing import Limits, Row, Speculator
from .output import DecodeOutput, Speculation, Timing
from .passes import prefill
from .pipeline import Pipeline
from .prompts import PromptBatch
from .sampling import Sampling, likeliest


def speculative_decode(
    backbone: Backbone,
    method: Speculative,
    prompts: PromptBatch,
    max_new_tokens: int,
    force_length: bool,
    sampling: Sampling,
) -> DecodeOutput:
    """Greedy decoding of a batch with guesses; see `decode`. Raises UsageError for sampling."""
    check_temperature(type(method), sampling.temperature)
    limits = Limits(max_new_tokens, frozenset(() if force_length else backbone.eos_ids))
    speculator = make_speculator(backbone, method, prompts.lengths, limits)
    with gates(backbone, speculator.visit):
        start = read_clock(backbone.device)
        logits = prefill(backbone, speculator, prompts)
        first = speculator.picked.note(logits, likeliest(logits)).tolist()
        prompt_layers = list(speculator.ran)
        rows = [Row(i, length, [token]) for i, (length, token) in enumerate(zip(prompts.lengths, first, strict=True))]
        prefilled = read_clock(backbone.device)
        speculator.begin(rows)
        while speculator.rows:
            speculator.advance()
        done = read_clock(backbone.device)
    speculator.picked.check(backbone)
    seconds = (prefilled - start, done - prefilled)
    return _output(backbone, rows, speculator, limits, prompt_layers, seconds)


def make_speculator(backbone: Backbone, method: Speculative, lengths: list[int], limits: Limits) -> Speculator:
    """The engine part of a method; raises UsageError where the method and the model do not fit."""
    kind = Pipeline if method.pipelined else Drafting
    if method.pipelined and backbone.num_cycles is None:
        raise UsageError(
            f"method {method.name!r} pipelines the cycles of a looped decoder, and model {backbone.name!r} is not "
            "looped; use looped-opt or looped-llama"
        )
    speculator = kind(backbone, method, lengths, limits)
    if len(speculator.prompt_layers) != backbone.num_layers:
        raise UsageError(f"method {method.name!r}: a speculative method is lossless, so the prompt runs every layer")
    return speculator


def _output(backbone, rows: list[Row], speculator, limits: Limits, prompt_layers, seconds) -> DecodeOutput:
    lengths = torch.tensor([len(row.tokens) for row in rows], device=backbone.device)
    longest = int(lengths.max())
    tokens = torch.full((len(rows), longest), backbone.pad_id, dtype=torch.long, device=backbone.device)
    for row in rows:
        tokens[row.index, : len(row.tokens)] = torch.tensor(row.tokens, device=backbone.device)
    steps = torch.arange(1, longest, device=backbone.device)
    return DecodeOutput(
        tokens=tokens,
        lengths=lengths,
        layers_needed=torch.where(steps < lengths[:, None], backbone.num_layers, 0),
        layers_run=speculator.layers_run,
        prompt_layers=prompt_layers,
        head_checks=[0] * len(speculator.layers_run),
        timing=Timing(*seconds, longest - 1),
        kv_bytes=speculator.cache.nbytes,
        ended=torch.tensor([row.tokens[-1] in limits.eos for row in rows], device=backbone.device),
        speculation=Speculation(*torch.tensor([(r.guesses, r.accepted, r.passes) for r in rows]).unbind(1)),
    )
