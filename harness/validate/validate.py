"""Does a method keep the contract? Run on tiny random models of every supported family, in float64.

Checked: decoding equals the no-cache oracle; a row in a batch of mixed lengths equals the row alone; the trace equals
an independent count of layer and head calls; a second identical call gives the same and leaves the method as it was;
its recipe can be trained; the model is restored, also after an exception. A pipelined method runs on looped models. It
is also said how often outputs agree in low precision: a batch's with its rows alone, or what a speculative method gives
with greedy decoding.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch

from ..backbone import Backbone
from ..backbone.tiny import LOOPED_KINDS, TINY_KINDS, tiny_backbone, tiny_prompts
from ..decoding.agreement import Agreement, batch_agreement, greedy_agreement
from ..errors import UsageError
from ..method import Lengths, Method, Speculative
from ..method.forms import parameter_forms
from ..method.parameters import build_method, check_parameters
from ..notation import parse_method
from ..registry import METHODS
from .contract import ANYTHING, broken_rules, reason, wrong_signatures

LOW_PRECISION = ("float32", "bfloat16")
BESIDE_GREEDY, BESIDE_ALONE = ([2, 6, 4, 3, 5, 7, 4, 1], 24), ([2, 6, 4, 3], 16)  # tokens of the prompts; new ones
ENOUGH = 2  # failing runs after which nothing more is tried
LATE = 2  # runs in which late steps are decoded too
DEPTHS = (None, 12, 24)  # layers of the models: their own, else more for a method that refuses them all
LENGTHS = Lengths(prompt=4, output=6, outputs=(5, 6, 7))


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


def validate_method(method: str | type[Method], **parameters) -> Report:
    """Check a method, by its registered name (also `name:key=value`) or its class, against the contract. Takes seconds.

    Parameters that are not given are found by `for_target` at several targets, else the defaults are taken; the options
    of `Literal` and bool fields and the ends and middle of an early exit's `search` range are tried in turn.

    Raises UsageError for a name that is not registered, or parameters that the method does not have.
    """
    if isinstance(method, str):
        method, parameters = _parsed(method, parameters)
    name = method if isinstance(method, str) else getattr(method, "name", "") or getattr(method, "__name__", method)
    report = Report(str(name))
    found: dict[str, tuple[str, list[str]]] = {}  # rule: what was seen first, and where
    try:
        cls = METHODS.load(method) if isinstance(method, str) else method
    except ANYTHING as error:
        if method not in {*METHODS.classes, *METHODS.broken}:
            raise  # no such method
        report.failures = [f"it cannot be built: {reason(error)}"]
        return report
    given = check_parameters(cls, parameters) if parameters and dataclasses.is_dataclass(cls) else {}
    try:
        _run_all(cls, given, report, found)
    except ANYTHING as error:
        found["it cannot be built"] = (reason(error), [])
    report.failures = [_sentence(rule, *what, report.checked) for rule, what in found.items()]
    return report


def _parsed(text: str, parameters: dict) -> tuple[str, dict]:
    parsed = parse_method(text)
    name, written = parsed.pop("name"), parsed.pop("params")
    if parsed:
        raise UsageError(f"validate runs on tiny models without artefacts; leave out {' and '.join(parsed)}")
    return name, {**written, **parameters}


def _run_all(cls: type[Method], given: dict, report: Report, found: dict) -> None:
    found.update((rule, (seen, [])) for rule, seen in wrong_signatures(cls))
    if found:
        return
    failing, (depth, forms) = 0, _built(cls, given)
    for backbone, label, method in _runs(depth, forms):
        where = f"{backbone.name}{label}"
        findings = broken_rules(backbone, method, late=len(report.checked) < LATE)
        report.checked.append(where)
        for rule, seen in findings:
            found.setdefault(rule, (seen, []))[1].append(where)
        failing += bool(findings)
        if failing == ENOUGH:
            return
    if not found:
        report.notes.extend(_in_low_precision(forms[0][1], depth))


def _in_low_precision(instances: list[tuple[str, Method]], depth: int | None) -> Iterator[str]:
    """How often outputs agree where rounding decides close calls."""
    guesses = isinstance(instances[0][1], Speculative)
    agreement, what = (greedy_agreement, "greedy decoding") if guesses else (batch_agreement, "each row alone")
    lengths, tokens = BESIDE_GREEDY if guesses else BESIDE_ALONE
    for dtype in LOW_PRECISION:
        models = [(tiny_backbone(kind, depth, dtype=getattr(torch, dtype)), method) for kind, method in instances]
        parts = [agreement(model, method, *tiny_prompts(lengths), tokens) for model, method in models]
        yield f"  {dtype}, beside {what}: {Agreement.over(parts)}"


Forms = list[tuple[dict, list[tuple[str, Method]]]]  # parameters, and by kind of model the method built from them


def _built(cls: type[Method], given: dict) -> tuple[int | None, Forms]:
    """The first of `DEPTHS` at which the method can be built at all, and its forms there."""
    refusals: list[Exception] = []
    for depth in DEPTHS:
        forms = [(form, _instances(cls, form, depth, refusals)) for form in parameter_forms(cls, given)]
        forms = [(form, instances) for form, instances in forms if instances]
        if forms:
            return depth, forms
    raise refusals[0]


def _instances(cls, form: dict, depth: int | None, refusals: list) -> list[tuple[str, Method]]:
    """By kind of model; a form may be refused for some models, but nothing else may go wrong."""
    instances = []
    kinds = LOOPED_KINDS if getattr(cls, "pipelined", False) else TINY_KINDS
    for kind, num_layers in kinds.items():
        try:
            instances.append((kind, build_method(cls, depth or num_layers, lengths=LENGTHS, **form)))
        except (UsageError, ValueError) as error:  # ValueError is what others' __post_init__ refuses with
            refusals.append(error)
    return instances


def _runs(depth: int | None, forms: Forms) -> Iterator[tuple[Backbone, str, Method]]:
    """The first parameter form on every model, each other one on one."""
    for number, (form, instances) in enumerate(forms):
        label = "".join(f" {key}={value}" for key, value in form.items())
        label = f" with {depth} layers{label}" if depth else label
        for kind, method in instances if number == 0 else [instances[number % len(instances)]]:
            yield tiny_backbone(kind, depth), label, method


def _sentence(rule: str, seen: str, places: list[str], checked: list[str]) -> str:
    """A failure, and in which of the runs it was seen and in which not."""
    others = [run for run in checked if run not in places]
    where = f"in {_few(places)}, not in {_few(others)}" if others else f"in every run made: {_few(places)}"
    return f"{rule}: {seen}" + (f" [{where}]" if places else "")


def _few(runs: list[str]) -> str:
    return ", ".join(runs[:3]) + (f" and {len(runs) - 3} more" if len(runs) > 3 else "")
