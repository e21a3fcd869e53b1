"""Trivial outputs: what a method must beat before a claim about it is worth a judgement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from harness import Example


def lead(text: str, sentences: int = 3) -> str:
    """The first sentences of a document, one a line."""
    from harness.scoring import split_sentences

    return "\n".join(split_sentences(text.replace("\n", " "))[:sentences])


def most_frequent_reference(examples: Iterable[Example]) -> str:
    """The reference that occurs most often; of several, the first."""
    return Counter(reference for example in examples for reference in example.references).most_common(1)[0][0]
