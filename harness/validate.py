"""Does a method keep the contract? Run on tiny random models of every supported family, in float64.

Checked: decoding equals the no-cache oracle; a row in a batch of mixed lengths equals the row alone; the trace equals
an independent count of layer calls; a second identical call gives the same and leaves the method as it was; the model
is restored, also after an exception. A pipelined method runs on looped models. Of a speculative method it is also said
how often it keeps its word in low precision.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch

from .backbone import Backbone, MissingKV
from .backbone.tiny import LOOPED_KINDS, TINY_KINDS, tiny_backbone, tiny_prompts
from .backbone.watching import changes, layer_calls, snapshot
from .decoding import DecodeOutput, decode, oracle_decode
from .decoding.agreement import Agreement, greedy_agreement
from .errors import SkipbenchError, UsageError
from .forms import parameter_forms
from .method import LayerSchedule, Lengths, Method, Speculative, build_method, check_layers
from .registry import METHODS

PROMPTS, NEW_TOKENS = [2, 6, 4], 7
LOW_PRECISION = ("float32", "bfloat16")
MORE_PROMPTS, MORE_TOKENS = [2, 6, 4, 3, 5, 7, 4, 1], 24
HORIZON = 300  # decode steps over which a schedule's layers are read without running them
ENOUGH = 2  # failing runs after which nothing more is tried
LENGTHS = Lengths(prompt=4, output=6, outputs=(5, 6, 7))

Finding = tuple[str, str]  # (which rule, what was seen)
_ANYTHING = (Exception, SystemExit)  # an outsider's method may raise what it likes


@dataclass
class Report:
    """What `validate_method` found: `failures` are sentences, `checked` the runs (model, parameters) that were made.

    `notes` say what is no failure but good to know.
    """

    name: str
    failures: list[str] = field(default_factory=list)
    checked: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return not self.failures

    def __str__(self) -> str:
        if self.ok:
            models = len({run.partition(" ")[0] for run in self.checked})
            return "\n".join([f"{self.name}: ok, {len(self.checked)} runs on {models} tiny models", *self.notes])
        return "\n".join([f"{self.name}: broken", *(f"- {failure}" for failure in self.failures)])


def validate_method(method: str | type[Method]) -> Report:
    """Check a method, by its registered name or its class, against the contract. Takes seconds.

    Parameters are found by `for_target` at several targets, else the defaults are taken; the options of `Literal` and
    bool fields and the ends and middle of an early exit's `search` range are tried in turn.

    Raises UsageError for a name that is not registered.
    """
    name = method if isinstance(method, str) else getattr(method, "name", "") or getattr(method, "__name__", method)
    report = Report(str(name))
    found: dict[str, tuple[str, list[str]]] = {}  # rule: what was seen first, and where
    try:
        _run_all(METHODS.load(method) if isinstance(method, str) else method, report, found)
    except _ANYTHING as error:
        if isinstance(method, str) and method not in {*METHODS.classes, *METHODS.broken}:
            raise  # no such method
        found["it cannot be built"] = (_reason(error), [])
    report.failures = [_sentence(rule, seen, places) for rule, (seen, places) in found.items()]
    return report


def _run_all(cls: type[Method], report: Report, found: dict) -> None:
    failing = 0
    for backbone, label, instance in _runs(cls):
        where = f"{backbone.name}{label}"
        report.checked.append(where)
        findings = _guarded(backbone, instance)
        for rule, seen in findings:
            found.setdefault(rule, (seen, []))[1].append(where)
        failing += bool(findings)
        if failing == ENOUGH:
            return
    if not found and issubclass(cls, Speculative):
        report.notes.extend(_in_low_precision(cls))


def _in_low_precision(cls: type[Speculative]) -> Iterator[str]:
    """How often outputs equal sequential greedy decoding where rounding decides close calls."""
    prompts = tiny_prompts(MORE_PROMPTS)
    for dtype in LOW_PRECISION:
        models = [
            (tiny_backbone(kind, dtype=getattr(torch, dtype)), method) for kind, method in _instances(cls, {}, [])
        ]
        parts = [greedy_agreement(model, method, *prompts, MORE_TOKENS) for model, method in models]
        yield f"  {dtype}: {Agreement.over(parts)}"


def _runs(cls: type[Method]) -> Iterator[tuple[Backbone, str, Method]]:
    """The first parameter form on every model, each other one on one."""
    refusals: list[UsageError] = []
    built = [(form, _instances(cls, form, refusals)) for form in parameter_forms(cls)]
    built = [(form, instances) for form, instances in built if instances]
    if not built:
        raise refusals[0]
    for number, (form, instances) in enumerate(built):
        label = "".join(f" {key}={value}" for key, value in form.items())
        for kind, instance in instances if number == 0 else [instances[number % len(instances)]]:
            yield tiny_backbone(kind), label, instance


def _instances(cls, form: dict, refusals: list) -> list[tuple[str, Method]]:
    """By kind of model; a form may be refused for some models, but nothing else may go wrong."""
    instances = []
    kinds = LOOPED_KINDS if getattr(cls, "pipelined", False) else TINY_KINDS
    for kind, num_layers in kinds.items():
        try:
            instances.append((kind, build_method(cls, num_layers, lengths=LENGTHS, **form)))
        except UsageError as error:
            refusals.append(error)
    return instances


def _guarded(backbone: Backbone, method: Method) -> list[Finding]:
    """All findings of one run; whatever the method raises is one of them, and the model must survive it."""
    before, findings = snapshot(backbone), []
    try:
        findings = list(_schedule_rules(method)) if isinstance(method, LayerSchedule) else []
        if not findings:
            findings.extend(_contract(backbone, method))
            _interrupt(backbone, method)
    except MissingKV as error:
        findings.append(("it opens a hole in the cache", str(error)))
    except _ANYTHING as error:
        findings.append(("decoding with it fails", _reason(error)))
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
                "it opens a hole in the cache",
                f"layers({step}) runs layer {fresh[0]}, which did not run at every earlier position (kv_policy "
                "'closed'), so its keys and values are missing",
            )
            return
        always = always & set(layers)


def _contract(backbone: Backbone, method: Method) -> Iterator[Finding]:
    ids, mask = tiny_prompts(PROMPTS)
    fields = repr(vars(method))
    with layer_calls(backbone) as passes:
        out = decode(backbone, method, ids, mask, NEW_TOKENS)
    yield from _trace(passes, out)
    again = decode(backbone, method, ids, mask, NEW_TOKENS)
    if repr(vars(method)) != fields:
        yield "it changes itself between runs", f"{fields} became {vars(method)}"
    if not _equal(out, again):
        seen = [f"{_rows(o)} by {len(o.layers_run)} passes" for o in (out, again)]
        yield "a second identical call differs", ", then ".join(seen)
    for row, (tokens, needed) in enumerate(_rows(out)):
        alone = decode(backbone, method, ids[row : row + 1], mask[row : row + 1], NEW_TOKENS)
        if _rows(alone)[0] != (tokens, needed):
            yield "a row depends on its batch mates", f"row {row} gives {(tokens, needed)}, alone {_rows(alone)[0]}"
        expected = oracle_decode(backbone, method, ids[row][mask[row].bool()].tolist(), NEW_TOKENS)
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


def _reason(error: BaseException) -> str:
    if isinstance(error, SkipbenchError):
        return str(error)
    last = traceback.extract_tb(error.__traceback__)[-1]
    place = last.filename.rpartition("/")[2]
    return f"{type(error).__name__}: {error} ({place}, line {last.lineno}: {last.line})"


def _sentence(rule: str, seen: str, places: list[str]) -> str:
    more = f" and {len(places) - 3} more" if len(places) > 3 else ""
    return f"{rule}: {seen}" + (f" [{', '.join(places[:3])}{more}]" if places else "")
