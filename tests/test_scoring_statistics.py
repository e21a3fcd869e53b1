"""Bootstrap, paired tests and seeds: against enumeration, scipy and sacreBLEU."""

import itertools
import math
import random
import time

import numpy as np
import pytest

from harness.errors import UsageError
from harness.scoring import median_interval, over_seeds, paired_test, score_with_intervals
from harness.scoring.api import all_statistics
from harness.scoring.overlap import bleu_value
from harness.scoring.statistics import Statistics, bootstrap, interval, mean_of, ratio, resampled_sums

WORDS = ("the", "a", "red", "blue", "green", "house", "boat", "hill", "runs", "walks", "slowly", "fast", "today")


def corpus(n, seed=0, noise=0.3):
    """References and outputs that copy most of them."""
    rng = random.Random(seed)
    references = [[" ".join(rng.choices(WORDS, k=rng.randint(5, 14)))] for _ in range(n)]
    return [noisy(r[0], noise, rng) for r in references], references


def noisy(text, noise, rng):
    return " ".join(rng.choice(WORDS) if rng.random() < noise else word for word in text.split())


# T29: one module, checked against brute force
def test_bootstrap_of_five_values_equals_the_enumerated_one():
    values = np.array([1.0, 2.0, 4.0, 8.0, 16.0])
    every = np.array([np.mean(draw) for draw in itertools.product(values, repeat=5)])
    found = bootstrap(mean_of(values, ""), resamples=40_000, seed=1)
    assert found.mean() == pytest.approx(every.mean(), rel=0.01)
    assert found.std() == pytest.approx(every.std(), rel=0.01)
    low, high = interval(mean_of(values, ""), resamples=40_000, seed=1)
    assert (low, high) == pytest.approx(np.quantile(every, [0.025, 0.975]), abs=0.21)


def test_bootstrap_of_a_ratio_of_sums_equals_the_enumerated_one():
    rows = np.array([[1.0, 2.0], [5.0, 4.0], [2.0, 9.0], [3.0, 3.0], [8.0, 5.0]])
    every = [rows[list(d)].sum(0) for d in itertools.product(range(5), repeat=5)]
    every = np.array([top / bottom for top, bottom in every])
    found = bootstrap(Statistics(rows, ratio, ""), resamples=40_000, seed=2)
    assert found.mean() == pytest.approx(every.mean(), rel=0.01)
    assert np.quantile(found, [0.1, 0.5, 0.9]) == pytest.approx(np.quantile(every, [0.1, 0.5, 0.9]), rel=0.02)


def test_interval_of_a_mean_agrees_with_scipy():
    from scipy.stats import bootstrap as scipy_bootstrap

    values = np.random.default_rng(0).gamma(2, 10, size=200)
    expected = scipy_bootstrap((values,), np.mean, n_resamples=5000, method="percentile", rng=1).confidence_interval
    assert interval(mean_of(values, ""), 5000, seed=3) == pytest.approx(tuple(expected), rel=0.01)


def test_interval_of_a_median_lies_between_the_two_sign_tests_around_95_percent():
    from scipy.stats import quantile_test

    for n in range(6, 60):
        values = np.sort(np.random.default_rng(n).gamma(2, 10, size=n))
        exact = quantile_test(values, q=0, p=0.5).confidence_interval(0.95)  # covers at least as much
        low, high = median_interval(values)
        assert exact.low <= low < values[np.searchsorted(values, exact.low) + 1]
        assert values[np.searchsorted(values, exact.high) - 1] < high <= exact.high


@pytest.mark.parametrize("n", [5, 6, 7, 8, 10, 20])
@pytest.mark.parametrize("shape", ["normal", "laplace", "exponential"])
def test_interval_of_a_median_misses_it_one_time_in_twenty(n, shape):
    """By simulation; five values bound their median with 93.75 %, so they miss a little more often."""
    samples = getattr(np.random.default_rng(n), shape)(size=(4000, n))
    truth = np.log(2) if shape == "exponential" else 0
    found = [median_interval(row) for row in samples]
    missed = np.mean([not low <= truth <= high for low, high in found])
    assert missed == pytest.approx(0.0625 if n == 5 else 0.05, abs=0.012)


def test_intervals_are_seeded_and_hold_the_value():
    outputs, references = corpus(60)
    names = ["bleu", "chrf", "rougeL", "nist"]
    first, again, other = (score_with_intervals(outputs, references, names, seed=seed) for seed in (0, 0, 1))
    assert first == again and first != other
    assert all(s.low < s.value < s.high for s in first.values())


def test_resampling_in_chunks_gives_the_same_kind_of_sums(monkeypatch):
    rows = np.ones((50, 2))
    monkeypatch.setattr("harness.scoring.statistics.CHUNK", 120)
    sums = resampled_sums(rows, 33, seed=0)
    assert sums.shape == (33, 2) and (sums == 50).all()


def test_fewer_than_two_examples_have_no_interval():
    found = score_with_intervals(["a"], [["a"]], ["rougeL"])["rougeL"]
    assert (found.value, found.low, found.high) == (100, None, None)
    assert median_interval([1.0]) is None and median_interval([3.0, 1.0]) == (1.0, 3.0)


def test_where_nothing_was_counted_there_is_no_value():
    nothing = Statistics(np.array([[0.0, 0.0], [0.0, 0.0]]), ratio, "layers over layers")
    assert math.isnan(nothing.value) and all(map(math.isnan, interval(nothing)))
    some = Statistics(np.array([[0.0, 0.0], [8.0, 4.0], [8.0, 4.0]]), ratio, "")
    assert some.value == 2 and interval(some) == (2, 2)  # resamples of the first alone say nothing


def test_bleu_of_many_sums_equals_sacrebleu_one_by_one():
    from sacrebleu.metrics import BLEU

    rng = np.random.default_rng(0)
    total = rng.integers(0, 9, size=(300, 4))
    match = rng.integers(0, total + 1)
    rows = np.concatenate([rng.integers(0, 30, size=(300, 2)), match, total], axis=1).astype(float)
    expected = [BLEU(effective_order=True)._compute_score_from_stats(list(row)).score for row in rows]
    usable = (total > 0).all(axis=1)  # no other row can come from texts
    assert bleu_value(rows)[usable] == pytest.approx(np.array(expected)[usable])


@pytest.mark.parametrize("test, code, samples", [("bootstrap", "bs", 1000), ("randomisation", "ar", 2000)])
@pytest.mark.parametrize("noise", [0.31, 0.36])
def test_p_values_agree_with_sacrebleu(test, code, samples, noise, monkeypatch):
    from sacrebleu.metrics import BLEU
    from sacrebleu.significance import PairedTest

    monkeypatch.setenv("SACREBLEU_SEED", "12345")
    first, references = corpus(150)
    second, _ = corpus(150, noise=noise)
    second = [noisy(r[0], noise, random.Random(i)) for i, r in enumerate(references)]
    columns = [[r[0] for r in references]]
    systems = [("one", first), ("two", second)]
    scores = PairedTest(systems, {"BLEU": BLEU(force=True)}, columns, code, n_samples=samples)()[1]["BLEU"]
    found = paired_test(first, second, references, ["bleu"], test=test, resamples=samples, seed=12345)["bleu"]
    assert (found.first, found.second) == pytest.approx((scores[0].score, scores[1].score))
    assert found.p_value == pytest.approx(scores[1].p_value, abs=0.03)
    if code == "bs":
        own = score_with_intervals(second, references, ["bleu"], seed=12345)["bleu"]
        assert (own.high - own.low) / 2 == pytest.approx(scores[1].ci, rel=0.05)


@pytest.mark.parametrize("test", ["bootstrap", "randomisation"])
def test_equal_methods_do_not_differ_and_bad_ones_do(test):
    outputs, references = corpus(80)
    worse = [noisy(o, 0.6, random.Random(i)) for i, o in enumerate(outputs)]
    names = ["bleu", "chrf", "rougeL", "length_ratio", "meteor"]
    same = paired_test(outputs, outputs, references, names, test=test, resamples=500)
    assert "meteor" not in same
    assert all(p.p_value == 1 and p.difference == 0 == p.low == p.high for p in same.values())
    found = paired_test(outputs, worse, references, ["bleu", "rougeL"], test=test, resamples=500)
    assert all(p.p_value < 0.01 and p.low > 0 for p in found.values())


def test_the_test_is_two_sided_and_antisymmetric():
    first, references = corpus(80)
    second = [noisy(r[0], 0.35, random.Random(i)) for i, r in enumerate(references)]
    one = paired_test(first, second, references, ["bleu"])["bleu"]
    two = paired_test(second, first, references, ["bleu"])["bleu"]
    assert one.difference == -two.difference and one.low == pytest.approx(-two.high)
    assert one.p_value == pytest.approx(two.p_value, abs=0.002)


def test_bad_requests_are_refused():
    with pytest.raises(UsageError, match="did you mean bootstrap"):
        paired_test(["a"], ["a"], [["a"]], ["bleu"], test="bootstrp")
    with pytest.raises(UsageError, match="2 outputs but 1"):
        paired_test(["a"], ["a", "b"], [["a"]], ["bleu"])


def test_several_seeds_have_an_interval_over_examples_and_a_seed_range():
    first, references = corpus(100)
    runs = [
        first,
        *([noisy(r[0], 0.35, random.Random(s * 1000 + i)) for i, r in enumerate(references)] for s in (1, 2)),
    ]
    statistics = [all_statistics(run, references, ["bleu"], "en")["bleu"] for run in runs]
    found = over_seeds(statistics)
    values = [one.value for one in statistics]
    assert (found.lowest_seed, found.highest_seed) == (min(values), max(values))
    assert found.low < found.value < found.high and found.value == pytest.approx(np.mean(values))
    assert found.high - found.low < max(np.ptp(interval(one)) for one in statistics)  # averaged, not the seeds' spread


def test_a_thousand_resamples_of_630_outputs_take_seconds():
    outputs, references = corpus(630)
    started = time.process_time()
    score_with_intervals(outputs, references, ["bleu", "rougeL", "nist", "chrf", "length_ratio", "empty", "repetition"])
    assert time.process_time() - started < 6
