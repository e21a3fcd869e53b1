"""The engine's contract, checked on one method and one model: every way in which it is broken is a finding."""

from __future__ import annotations

import inspect
import json
import traceback
from collections.abc import Iterator

import torch

from ..backbone import Backbone, MissingKV
from ..backbone.tiny import tiny_prompts
from ..backbone.watching import changes, head_calls, layer_calls, snapshot
from ..decoding import DecodeOutput, decode, oracle_decode
from ..errors import SkipbenchError
from ..method import EarlyExit, LayerSchedule, Method, Speculative, check_layers
from ..training.batches import Pair, collate
from ..training.objectives import make_loss

PROMPTS, NEW_TOKENS, LATE_TOKENS = [2, 6, 4], 7, 22
HORIZON = 300  # decode steps over which a schedule's layers are read without running them
PAIRS = [Pair([5, 6, 7, 8], [9, 10, 11, 2]), Pair([4], [3, 12, 2])]  # to train on
HOLE = "it opens a hole in the cache"
CURE = (
    'set kv_policy: ClassVar[str] = "propagate" to have skipped layers write them, or let the layers only get fewer '
    "from the prompt on"
)

Finding = tuple[str, str]  # (which rule, what was seen)
ANYTHING = (Exception, SystemExit)  # an outsider's method may raise what it likes


def wrong_signatures(cls: type[Method]) -> Iterator[Finding]:
    """Hooks that the engine could not call, seen without calling them."""
    if not isinstance(cls, type):
        return  # refused with a reason when it is built
    bases = [base for base in (Method, LayerSchedule, EarlyExit, Speculative) if issubclass(cls, base)]
    wanted = {
        name: list(inspect.signature(hook).parameters)
        for base in bases
        for name, hook in vars(base).items()
        if inspect.isfunction(hook) and not name.startswith("_")
    }
    if hasattr(cls, "for_target"):
        wanted["for_target"] = ["cls", "num_layers", "target", "lengths"]
    for name, arguments in wanted.items():
        hook = getattr(cls, name)
        bound = isinstance(inspect.getattr_static(cls, name), (classmethod, staticmethod))
        try:
            inspect.signature(hook).bind(*(arguments[1:] if bound else arguments))
        except TypeError:
            given = f"{name}{inspect.signature(hook)}" if callable(hook) else repr(hook)
            yield "a hook has the wrong signature", f"the engine calls {name}({', '.join(arguments)}), this is {given}"
        except ValueError:  # written in C
            continue


def broken_rules(backbone: Backbone, method: Method, late: bool = False) -> list[Finding]:
    """All findings of one run; whatever the method raises is one of them, and the model must survive it.

    `late`: decode an early exit further than the other runs do, for what it does at late steps only.
    """
    before, findings = snapshot(backbone), []
    try:
        findings = list(_schedule_rules(method)) if isinstance(method, LayerSchedule) else []
        if not findings:
            findings.extend(_contract(backbone, method))
            if late and isinstance(method, EarlyExit):
                findings.extend(_late_steps(backbone, method))
            findings.extend(_training(backbone, method))
            _interrupt(backbone, method)
    except MissingKV as error:
        findings.append((HOLE, str(error) if isinstance(method, Speculative) else f"{error}; {CURE}"))
    except ANYTHING as error:
        findings.append(("decoding with it fails", reason(error)))
    changed = changes(before, snapshot(backbone))
    return [*findings, ("it leaves the model changed", changed)] if changed else findings


def _schedule_rules(method: LayerSchedule) -> Iterator[Finding]:
    """What can be read off a schedule far beyond the steps that are decoded."""
    said = [check_layers(method, method.layers(step), f"layers({step})") for step in range(1, HORIZON + 1)]
    for step, (layers, planned) in enumerate(zip(said, method.plan(HORIZON), strict=True), start=1):
        if layers != tuple(planned):
            yield (
                "it claims layers that it does not run",
                f"layers({step}) says {list(layers)}, but the plan it runs has {list(planned)} there",
            )
            return
    if method.kv_policy == "closed":
        yield from _holes(said, set(check_layers(method, method.prompt_layers(), "prompt_layers()")))


def _holes(said: list[tuple[int, ...]], always: set[int]) -> Iterator[Finding]:
    """Layers that run although they did not run at every earlier step; `always` holds those that did."""
    for step, layers in enumerate(said, start=1):
        fresh = sorted(set(layers) - always)
        if fresh:
            yield (
                HOLE,
                f"layers({step}) runs layer {fresh[0]}, which did not run at every earlier position (kv_policy "
                f"'closed'), so its keys and values are missing; {CURE}",
            )
            return
        always = always & set(layers)


def _contract(backbone: Backbone, method: Method) -> Iterator[Finding]:
    ids, mask = tiny_prompts(PROMPTS)
    fields = repr(vars(method))
    with layer_calls(backbone) as passes, head_calls(backbone) as heads:
        out = decode(backbone, method, ids, mask, NEW_TOKENS)
    yield from _trace(passes, out)
    if out.speculation is None and method.kv_policy != "oracle":  # the one reads it as it likes, the other is untimed
        yield from _head_reads(len(heads), out)
    again = decode(backbone, method, ids, mask, NEW_TOKENS)
    if repr(vars(method)) != fields:
        yield "it changes itself between runs", f"{fields} became {vars(method)}"
    if not _equal(out, again):
        seen = [f"{_rows(o)} by {len(o.layers_run)} passes" for o in (out, again)]
        yield "a second identical call differs", ", then ".join(seen)
    yield from _row_by_row(backbone, method, out, NEW_TOKENS)


def _late_steps(backbone: Backbone, method: EarlyExit) -> Iterator[Finding]:
    """No row ends, so that rows of a batch are still together when late steps come."""
    ids, mask = tiny_prompts(PROMPTS)
    out = decode(backbone, method, ids, mask, LATE_TOKENS, force_length=True)
    yield from _row_by_row(backbone, method, out, LATE_TOKENS, force_length=True)


def _row_by_row(backbone: Backbone, method: Method, out: DecodeOutput, *length, **options) -> Iterator[Finding]:
    """A batch's rows against the same rows alone and against decoding without a cache."""
    ids, mask = tiny_prompts(PROMPTS)
    for row, (tokens, needed) in enumerate(_rows(out)):
        alone = decode(backbone, method, ids[row : row + 1], mask[row : row + 1], *length, **options)
        if _rows(alone)[0] != (tokens, needed):
            yield "a row depends on its batch mates", f"row {row} gives {(tokens, needed)}, alone {_rows(alone)[0]}"
        expected = oracle_decode(backbone, method, ids[row][mask[row].bool()].tolist(), *length, **options)
        if (expected.tokens, expected.layers_needed) != (tokens, needed):
            seen = f"row {row} gives {(tokens, needed)}, the oracle {(expected.tokens, expected.layers_needed)}"
            yield "it differs from the no-cache oracle (tokens, layers needed)", seen


def _trace(passes: list[list[int]], out: DecodeOutput) -> Iterator[Finding]:
    rule, claimed = "it claims layers that it did not run", [list(out.prompt_layers), *map(list, out.layers_run)]
    if claimed != passes:
        yield rule, f"the trace says {claimed}, but the calls of the layers were {passes}"
    for step, layers in enumerate(out.layers_run if out.speculation is None else ()):  # else they are no decode steps
        if int(out.layers_needed[:, step].max()) > len(layers):
            yield rule, f"a row needed {int(out.layers_needed[:, step].max())} layers at step {step + 1}, {layers} ran"


def _head_reads(calls: int, out: DecodeOutput) -> Iterator[Finding]:
    counted = 1 + len(out.layers_run) + sum(out.head_checks)  # the prompt's, one a step, and what the rule asked for
    if calls != counted:
        yield (
            "it reads the head without counting it",
            f"the head was called {calls} times, the trace has {counted}; only state.logits() is counted, once a layer",
        )


def _training(backbone: Backbone, method: Method) -> Iterator[Finding]:
    """Is its recipe JSON, by which checkpoints are kept, and can a batch be trained under it?"""
    rule = "it cannot be trained"
    try:
        recipe = method.recipe(HORIZON)
        json.dumps(recipe)
        with torch.no_grad():
            loss = make_loss(backbone, recipe, seed=0)(collate(PAIRS, backbone.fill_id), 0)
    except ANYTHING as error:
        yield rule, f"recipe({HORIZON}): {reason(error)}"
        return
    if not loss.isfinite():
        yield rule, f"the loss under recipe({HORIZON}) is {loss.item()}"


class _Interrupted(Exception):
    """Raised in mid-decode to see what is left behind."""


def _interrupt(backbone: Backbone, method: Method) -> None:
    ids, mask = tiny_prompts(PROMPTS)
    with layer_calls(backbone) as passes:

        def stop(*_) -> None:
            if len(passes) > 2:
                raise _Interrupted

        handles = [layer.register_forward_pre_hook(stop) for layer in backbone.layers]
        try:
            decode(backbone, method, ids, mask, NEW_TOKENS, force_length=True)
        except _Interrupted:
            pass
        finally:
            for handle in handles:
                handle.remove()


def _rows(out: DecodeOutput) -> list[tuple[list[int], list[int]]]:
    """Output tokens and layers needed of each row, to its end."""
    lengths = out.lengths.tolist()
    return [(out.tokens[r, :n].tolist(), out.layers_needed[r, : n - 1].tolist()) for r, n in enumerate(lengths)]


def _equal(a: DecodeOutput, b: DecodeOutput) -> bool:
    return _rows(a) == _rows(b) and a.layers_run == b.layers_run and a.prompt_layers == b.prompt_layers


def reason(error: BaseException) -> str:
    """What went wrong in one line; for an error that was not written for people also where."""
    if isinstance(error, SkipbenchError):
        return str(error)
    last = traceback.extract_tb(error.__traceback__)[-1]
    place = last.filename.rpartition("/")[2]
    return f"{type(error).__name__}: {error} ({place}, line {last.lineno}: {last.line})"
