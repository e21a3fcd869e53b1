"""Metrics against other implementations, on made-up corpora."""

import warnings
from itertools import zip_longest

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness import score
from harness.scoring import METRICS
from harness.scoring.lcs import lcs_length

OFFLINE = [name for name, info in METRICS.items() if info.module != "hub_metrics"]
token = st.sampled_from(["red", "blue", "green", "walks", "runs", "house", "£20-25", "houses.", "the"])
text = st.lists(token, max_size=12).map(" ".join)
corpus = st.lists(st.tuples(text, st.lists(text.filter(bool), min_size=1, max_size=4)), min_size=1, max_size=6)


@settings(max_examples=60, deadline=None)
@given(corpus)
def test_bleu_and_chrf_equal_sacrebleu(corpus):
    from sacrebleu.metrics import BLEU, CHRF

    outputs, references = [o for o, _ in corpus], [r for _, r in corpus]
    columns = list(zip_longest(*references))
    values = score(outputs, references, ["bleu", "chrf", "e2e_bleu"])
    expected = {"bleu": BLEU(effective_order=True), "e2e_bleu": BLEU(lowercase=True, effective_order=True)}
    for name, metric in expected.items():
        assert values[name] == pytest.approx(metric.corpus_score(outputs, columns).score)
    if any(len(output.split()) > 3 for output in outputs):
        assert values["bleu"] == pytest.approx(BLEU().corpus_score(outputs, columns).score)
    assert values["chrf"] == pytest.approx(CHRF().corpus_score(outputs, columns).score)
    sentences = [BLEU(effective_order=True).sentence_score(o, r).score for o, r in corpus]
    assert score(outputs, references, ["bleu"], per_example=True)["bleu"] == pytest.approx(sentences)


@settings(max_examples=60, deadline=None)
@given(corpus)
def test_rouge_equals_rouge_score(corpus):
    from rouge_score.rouge_scorer import RougeScorer

    names = ["rouge1", "rouge2", "rougeL", "rougeLsum"]
    scorer = RougeScorer(names, use_stemmer=True)
    values = score([o for o, _ in corpus], [r for _, r in corpus], names, per_example=True)
    for number, (output, group) in enumerate(corpus):
        expected = scorer.score_multi(group, output)
        assert {n: values[n][number] for n in names} == pytest.approx({n: 100 * expected[n].fmeasure for n in names})


@settings(max_examples=60, deadline=None)
@given(corpus)
def test_cider_and_e2e_rouge_equal_pycocoevalcap(corpus):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from pycocoevalcap.cider.cider_scorer import CiderScorer
        from pycocoevalcap.rouge.rouge import Rouge

    from harness.scoring.consensus import treebank

    scorer = CiderScorer()
    for output, group in corpus:
        scorer += (treebank(output), [treebank(r) for r in group])
    outputs, references = [o for o, _ in corpus], [r for _, r in corpus]
    values = score(outputs, references, ["e2e_cider", "e2e_rougeL"], per_example=True)
    if scorer.crefs and any(scorer.crefs):
        assert values["e2e_cider"] == pytest.approx(scorer.compute_score()[1].tolist(), abs=1e-9)
    for value, (output, group) in zip(values["e2e_rougeL"], corpus, strict=True):
        if treebank(output) and all(map(treebank, group)):  # the package counts '' as a word
            expected = 100 * Rouge().calc_score([treebank(output)], [treebank(r) for r in group])
            assert value == pytest.approx(expected)


@given(st.lists(st.sampled_from("abc"), max_size=9), st.lists(st.sampled_from("abcd"), max_size=9))
def test_lcs_length_equals_the_table(first, second):
    table = [[0] * (len(second) + 1) for _ in range(len(first) + 1)]
    for i, a in enumerate(first):
        for j, b in enumerate(second):
            table[i + 1][j + 1] = table[i][j] + 1 if a == b else max(table[i][j + 1], table[i + 1][j])
    assert lcs_length(first, second) == table[-1][-1]


@settings(max_examples=20, deadline=None)
@given(corpus, st.randoms())
def test_scores_do_not_depend_on_the_order_of_examples(corpus, random):
    shuffled = random.sample(corpus, len(corpus))
    values, again = (score([o for o, _ in c], [r for _, r in c], OFFLINE) for c in (corpus, shuffled))
    assert again == pytest.approx(values)
