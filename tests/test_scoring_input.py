"""What `score` takes as lists of texts: whatever has an order, and nothing whose iteration gives names."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest

from harness import score
from harness.errors import UsageError
from harness.scoring import METRICS

OFFLINE = [name for name, info in METRICS.items() if info.module != "hub_metrics"]
MAPPING, SET, TABLE = "not a mapping, whose keys would be scored", "not a set, which has no order", "not a table"


@pytest.mark.parametrize(
    ("outputs", "references", "message"),
    [
        ({"0": "out"}, [["ref"]], f"outputs must be a list of strings, {MAPPING}"),
        (Counter(["out"]), [["ref"]], MAPPING),
        ({"out"}, [["ref"]], f"outputs must be a list of strings, {SET}"),
        (frozenset(["out"]), [["ref"]], SET),
        ({"out": 1}.keys(), [["ref"]], SET),
        (["out"], {"0": ["ref"]}, f"references must be a list of lists of strings, {MAPPING}"),
        (["out"], {("ref",)}, f"references must be a list of lists of strings, {SET}"),
        (["out"], [{"A": "ref"}], rf"references\[0\] must be a list of strings, {MAPPING}"),
        (["a", "b"], [["a"], {"b", "c"}], rf"references\[1\] must be a list of strings, {SET}"),
        (pd.DataFrame({"out": ["a"]}), [["ref"]], f"outputs must be a list of strings, {TABLE}"),
        (["a"], pd.DataFrame({"ref": ["a"]}), f"references must be a list of lists of strings, {TABLE}"),
        (np.array("a"), [["ref"]], "outputs must be a list of strings, not"),
        (np.array([["a", "b"]]), [["ref"]], r"outputs\[0\] is"),
        (pd.Series(["a", float("nan")]), [["ref"], ["ref"]], r"outputs\[1\] is nan"),
        (["a"], np.array(["ref"]), r"references\[0\] must be a list of strings"),
    ],
)
def test_what_has_no_order_is_refused_at_every_level(outputs, references, message):
    with pytest.raises(UsageError, match=message):
        score(outputs, references, ["bleu"])


ORDERED = {
    "tuple": tuple,
    "iterator": iter,
    "array": np.array,
    "series": pd.Series,
    "labelled series": lambda values: pd.Series(values, index=list("zyx")[: len(values)]),
    "values of a mapping": lambda values: dict(enumerate(values)).values(),
}


@pytest.mark.parametrize("make", ORDERED.values(), ids=ORDERED.keys())
def test_what_has_an_order_serves(make):
    outputs, references = ["a b", "c"], ["a b", "d"]
    expected = score(outputs, [[text] for text in references], OFFLINE)
    assert score(make(outputs), [make([text]) for text in references], OFFLINE) == expected
    assert score(outputs, np.array([[text] for text in references]), OFFLINE) == expected


def test_sources_are_checked_like_outputs():
    for sources, message in (({"0": "s"}, MAPPING), (["s", "t"], "1 outputs but 2 sources"), ("s", "list of strings")):
        with pytest.raises(UsageError, match=message):
            score(["a"], [["a"]], ["comet"], sources=sources)
