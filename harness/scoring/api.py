"""`score` and `score_with_intervals`: checked input, a metric's statistics, values and intervals."""

from __future__ import annotations

import importlib
import warnings
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import NamedTuple

from ..errors import UsageError
from .names import METRICS, Unavailable, check_metrics
from .words import check_script


class Score(NamedTuple):
    """A metric's value with its 95 % interval over examples, and the choices behind it.

    `value` is None, and `reason` says why, for a metric that is unavailable. `low` and `high` are None for fewer than
    two examples.
    """

    value: float | None
    low: float | None = None
    high: float | None = None
    signature: str | None = None
    reason: str | None = None


def score(
    outputs: Sequence[str],
    references: Sequence[Sequence[str]],
    metrics: Iterable[str],
    language: str = "en",
    per_example: bool = False,
    sources: Sequence[str] | None = None,
) -> dict[str, float | list[float] | None]:
    """{metric: value} of `outputs` against `references`, one list of references an output.

    BLEU, chrF and ROUGE are on 0-100. An empty output is kept and scored 0. With `per_example` the values are lists,
    one number an output. `sources` are asked by COMET only. Texts may lie in anything that has an order: a list, a
    tuple, an array, a column of a table, a generator. A metric that is unavailable here has the value None, with a
    warning that says why.

    Raises UsageError for unknown metrics, unequal or transposed lists, mappings, sets and tables, and references in
    another script than the language's.
    """
    result = {}
    for name, statistics in all_statistics(outputs, references, metrics, language, sources).items():
        if isinstance(statistics, Unavailable):
            warnings.warn(f"metric {name!r} is unavailable: {statistics}", stacklevel=2)
            result[name] = None
        else:
            result[name] = statistics.per_example() if per_example else statistics.value
    return result


def score_with_intervals(
    outputs: Sequence[str],
    references: Sequence[Sequence[str]],
    metrics: Iterable[str],
    language: str = "en",
    seed: int = 0,
    resamples: int = 1000,
    sources: Sequence[str] | None = None,
) -> dict[str, Score]:
    """{metric: Score}: the values of `score` with seeded 95 % percentile-bootstrap intervals over examples."""
    from .statistics import interval

    result = {}
    for name, statistics in all_statistics(outputs, references, metrics, language, sources).items():
        if isinstance(statistics, Unavailable):
            result[name] = Score(None, reason=str(statistics))
        else:
            low, high = interval(statistics, resamples, seed) or (None, None)
            result[name] = Score(statistics.value, low, high, statistics.signature)
    return result


def all_statistics(outputs, references, metrics, language, sources=None) -> dict:
    """{metric: Statistics, or the Unavailable that says why there are none}, after checking every input."""
    names = check_metrics(metrics)
    outputs, references = checked_lists(outputs, references)
    sources = _checked_sources(sources, len(outputs))
    check_script(references, language)
    return {name: _statistics(name, outputs, references, language, sources) for name in names}


def _statistics(name: str, outputs, references, language: str, sources):
    module = importlib.import_module(f".{METRICS[name].module}", __package__)
    extra = {"sources": sources} if name == "comet" else {}
    try:
        return module.statistics(name, outputs, references, language, **extra)
    except Unavailable as reason:
        return reason


def checked_lists(outputs: Iterable[str], references: Iterable[Iterable[str]]) -> tuple[list[str], list[list[str]]]:
    """Both as lists; UsageError unless they pair each output with a list of its own references."""
    outputs = _texts(outputs, "outputs")
    if not outputs:
        raise UsageError("there are no outputs to score")
    references = _items(references, "references", "a list of lists of strings")
    if len(outputs) != len(references):
        raise UsageError(
            f"{len(outputs)} outputs but {len(references)} lists of references; give one list an output, "
            "references[i] holding every reference of outputs[i] (not one list a reference number)"
        )
    groups = [_texts(group, f"references[{number}]") for number, group in enumerate(references)]
    if [] in groups:
        raise UsageError(f"references[{groups.index([])}] is empty; every output needs at least one reference")
    return outputs, groups


def _checked_sources(sources: Iterable[str] | None, count: int) -> list[str] | None:
    if sources is None:
        return None
    sources = _texts(sources, "sources")
    if len(sources) != count:
        raise UsageError(f"{count} outputs but {len(sources)} sources; give one source an output")
    return sources


def _texts(values: Iterable[str], name: str) -> list[str]:
    texts = _items(values, name, "a list of strings")
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise UsageError(f"{name} must be a list of strings, but {name}[{number}] is {text!r:.60}")
    return texts


def _items(values: Iterable, name: str, wanted: str) -> list:
    """The values in their order; UsageError for what has none, or whose iteration gives something else than values."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable) or getattr(values, "ndim", 1) == 0:
        raise UsageError(f"{name} must be {wanted}, not {values!r:.60}")
    if isinstance(values, Mapping):
        raise UsageError(f"{name} must be {wanted}, not a mapping, whose keys would be scored; pass list(….values())")
    if isinstance(values, Set):
        raise UsageError(f"{name} must be {wanted}, not a set, which has no order to pair texts by; pass a list")
    if hasattr(values, "columns"):
        raise UsageError(f"{name} must be {wanted}, not a table; pass one of its columns, or its rows as lists")
    return list(values)
