"""METEOR, BERTScore and COMET through `evaluate`. Without the hub they are unavailable, with the reason."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..hub import hub_answers
from .languages import base_language
from .names import Unavailable
from .statistics import Statistics, mean_of


def statistics(
    name: str,
    outputs: Sequence[str],
    references: Sequence[Sequence[str]],
    language: str,
    sources: Sequence[str] | None = None,
) -> Statistics:
    """`meteor`, `bertscore` or `comet`, on 0-100. Raises Unavailable where it cannot be computed."""
    if name == "comet" and sources is None:
        raise Unavailable("COMET needs the source texts; none were given (a task's are its document field)")
    if not hub_answers():
        raise Unavailable("it is loaded from the Hugging Face hub, which does not answer")
    try:
        import evaluate

        values = _VALUES[name](evaluate.load(name), list(outputs), references, base_language(language), sources)
    except Exception as error:  # a missing package, a failed download: the other metrics must not fall with it
        raise Unavailable(f"{type(error).__name__}: {error}".splitlines()[0]) from error
    return mean_of(100 * np.array(values, dtype=float), f"{name}|evaluate:{evaluate.__version__}")


def _meteor(metric, outputs, references, language, sources) -> list[float]:
    pairs = zip(outputs, references, strict=True)
    return [metric.compute(predictions=[o], references=[list(group)])["meteor"] for o, group in pairs]


def _bertscore(metric, outputs, references, language, sources) -> list[float]:
    return metric.compute(predictions=outputs, references=[list(g) for g in references], lang=language)["f1"]


def _comet(metric, outputs, references, language, sources) -> list[float]:
    first = [group[0] for group in references]  # COMET takes one reference
    return metric.compute(predictions=outputs, references=first, sources=list(sources))["scores"]


_VALUES = {"meteor": _meteor, "bertscore": _bertscore, "comet": _comet}
