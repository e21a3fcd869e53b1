"""The metrics' names, what they are, and where each is computed. Nothing heavy is imported here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from ..errors import UsageError, unknown


class Unavailable(Exception):
    """A metric that cannot be computed here; the message is the reason."""


class MetricInfo(NamedTuple):
    """`module` of this package computes it; `scale` is the range of its values. Of a metric where a higher value is not
    better, nothing can be chosen or ranked by it."""

    module: str
    scale: str
    description: str
    higher_is_better: bool = True


METRICS: dict[str, MetricInfo] = {
    "bleu": MetricInfo("overlap", "0-100", "corpus BLEU (sacreBLEU, tokenizer of the target language)"),
    "chrf": MetricInfo("overlap", "0-100", "corpus chrF2 (sacreBLEU)"),
    "rouge1": MetricInfo("rouge", "0-100", "F1 of words, stemmed, best reference"),
    "rouge2": MetricInfo("rouge", "0-100", "F1 of word pairs, stemmed, best reference"),
    "rougeL": MetricInfo("rouge", "0-100", "F1 of the longest common subsequence of the whole text"),
    "rougeLsum": MetricInfo("rouge", "0-100", "F1 of the union of longest common subsequences, line by line"),
    "nist": MetricInfo("nist", "0-", "NIST-5 as mteval-v13a computes it"),
    "cider": MetricInfo("consensus", "0-10", "CIDEr-D (pycocoevalcap)"),
    "e2e_bleu": MetricInfo("overlap", "0-100", "the E2E challenge's BLEU (sacreBLEU, lower case)"),
    "e2e_nist": MetricInfo("nist", "0-", "the E2E challenge's NIST (mteval-v13a)"),
    "e2e_rougeL": MetricInfo("consensus", "0-100", "the E2E challenge's ROUGE-L (pycocoevalcap, beta 1.2)"),
    "e2e_cider": MetricInfo("consensus", "0-10", "the E2E challenge's CIDEr (pycocoevalcap)"),
    "length_ratio": MetricInfo(
        "simple", "0-", "output words to words of the closest reference, a ratio of sums", False
    ),
    "empty": MetricInfo("simple", "0-1", "share of outputs without any text", False),
    "repetition": MetricInfo("simple", "0-1", "mean share of an output's 4-grams that occurred in it before", False),
    "meteor": MetricInfo("hub_metrics", "0-100", "METEOR through evaluate; needs the hub"),
    "bertscore": MetricInfo("hub_metrics", "0-100", "BERTScore F1 through evaluate; needs the hub"),
    "comet": MetricInfo("hub_metrics", "0-100", "COMET through evaluate; needs the hub and sources"),
}


def check_metrics(names: Iterable[str]) -> list[str]:
    """The names as a list; UsageError with the nearest valid ones for an unknown name."""
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise UsageError(f"metrics must be a list of names, not {names!r}")
    names = list(names)
    for name in names:
        if not isinstance(name, str) or name not in METRICS:
            raise unknown("metric", name, METRICS)
    return names
