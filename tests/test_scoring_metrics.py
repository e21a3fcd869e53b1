"""Metrics: golden values, other implementations as oracles, and input that must be refused."""

import math
import socket
import subprocess
import sys
from types import SimpleNamespace

import pytest

from harness import score
from harness.errors import UsageError
from harness.scoring import METRICS, score_with_intervals, split_sentences

OFFLINE = [name for name, info in METRICS.items() if info.module != "hub_metrics"]
REFERENCE = "The cat sat on the mat . It was happy . The dog left ."
HYPOTHESIS = "The dog left . The cat sat on the mat . It was sad ."


def one(output, reference, metric, language="en"):
    return score([output], [[reference]], [metric], language)[metric]


def by_lines(text):
    return text.replace(" . ", " .\n")


# T21: ROUGE-L and ROUGE-Lsum
def test_flat_texts_have_equal_rouge_l_and_lsum():
    assert one(HYPOTHESIS, REFERENCE, "rougeL") == pytest.approx(66.7, abs=0.05)
    assert one(HYPOTHESIS, REFERENCE, "rougeLsum") == pytest.approx(66.7, abs=0.05)


@pytest.mark.parametrize("mark", ["\n", "<n>", "<q>", " <n> ", "\r\n"])
def test_lines_and_line_marks_separate_sentences(mark):
    output, reference = (by_lines(t).replace("\n", mark) for t in (HYPOTHESIS, REFERENCE))
    assert one(output, reference, "rougeLsum") == pytest.approx(91.7, abs=0.05)


def test_a_flat_output_is_cut_into_sentences_when_the_reference_has_lines():
    assert one(HYPOTHESIS, by_lines(REFERENCE), "rougeLsum") == pytest.approx(91.7, abs=0.05)


def test_rouge_signature_states_stemmer_and_lines():
    signature = score_with_intervals([HYPOTHESIS], [[REFERENCE]], ["rougeLsum"])["rougeLsum"].signature
    assert "porter" in signature and "lines:newline,<n>,<q>" in signature


# T22, T23: other scripts
@pytest.mark.parametrize("metric", ["rouge1", "rougeL", "rougeLsum", "bleu", "chrf"])
@pytest.mark.parametrize("text", ["我们今天去公园。", "你好"])
def test_identical_chinese_is_100(metric, text):
    assert one(text, text, metric, "zh") == pytest.approx(100)


def test_chinese_rouge_counts_characters():
    assert one("我爱狗", "我爱猫", "rouge1", "zh") == pytest.approx(100 * 2 / 3)


@pytest.mark.parametrize("metric", ["rougeL", "bleu", "length_ratio"])
def test_chinese_scored_as_english_is_refused(metric):
    with pytest.raises(UsageError, match="language='zh'"):
        one("我们今天去公园", "我们今天去公园", metric)


def test_one_odd_reference_does_not_stop_a_run():
    assert score(["yes it is", "да"], [["yes it is"], ["да"]], ["rougeL"])["rougeL"] > 0


def test_bleu_tokenizer_follows_the_language_and_is_in_the_signature():
    assert "tok:zh" in score_with_intervals(["好吗"], [["好吗"]], ["bleu"], language="zh-CN")["bleu"].signature
    assert "tok:13a" in score_with_intervals(["gut"], [["gut"]], ["bleu"], language="de")["bleu"].signature


def test_a_tokenizer_that_is_not_installed_makes_bleu_unavailable(monkeypatch):
    monkeypatch.setitem(sys.modules, "MeCab", None)
    monkeypatch.setitem(sys.modules, "ipadic", None)
    sys.modules.pop("sacrebleu.tokenizers.tokenizer_ja_mecab", None)
    found = score_with_intervals(["犬が走る"], [["犬が走る"]], ["bleu", "nist", "rougeL"], language="ja")
    assert "ja-mecab" in found["bleu"].reason and found["nist"].value is None
    assert found["rougeL"].value == 100


def test_sentences_keep_their_quotes_and_titles():
    text = 'He said "yes." Then Mr. B. Low left. Why? (No idea.) 好。是'
    assert split_sentences(text) == ['He said "yes."', "Then Mr. B. Low left.", "Why?", "(No idea.)", "好。", "是"]


def test_umlauts_are_letters_in_german_rouge():
    assert one("größe", "gr e", "rouge1", "de") == 0
    assert one("Die Größe", "die größe", "rougeL", "de") == pytest.approx(100)


# T24: shapes of the input
@pytest.mark.parametrize(
    "outputs, references, message",
    [
        (["a", "b", "c"], [["a", "b", "c"]], "3 outputs but 1 lists"),
        (["a", "b", "c"], [["a", "b", "c"], ["d", "e", "f"]], "one list an output"),
        (["a", "b"], ["a", "b"], r"references\[0\] must be a list"),
        (["a", "b"], [["a"], []], r"references\[1\] is empty"),
        (["a"], [[None]], "list of strings"),
        ("ab", [["a"], ["b"]], "list of strings"),
        ([], [], "no outputs"),
        (None, [["a"]], "outputs must be a list of strings, not None"),
        (3, [["a"]], "outputs must be a list of strings, not 3"),
        (["a", b"b"], [["a"], ["b"]], r"outputs\[1\] is b'b'"),
        (["a"], None, "references must be a list of lists of strings, not None"),
        (["a"], "a", "references must be a list of lists"),
        (["a", "b"], [["a"], None], r"references\[1\] must be a list of strings, not None"),
        (["a"], [7], r"references\[0\] must be a list of strings, not 7"),
    ],
)
def test_wrong_shapes_are_refused(outputs, references, message):
    with pytest.raises(UsageError, match=message):
        score(outputs, references, ["bleu"])


def test_any_iterable_serves():
    plain = score(["a b", "c"], [["a b"], ["c", "d"]], OFFLINE)
    lazy = score((o for o in ["a b", "c"]), (iter(g) for g in [["a b"], ["c", "d"]]), iter(OFFLINE))
    assert lazy == plain


def test_unknown_names_come_with_the_nearest():
    with pytest.raises(UsageError, match="did you mean bleu"):
        score(["a"], [["a"]], ["bleau"])
    for names in ("bleu", None, 3):
        with pytest.raises(UsageError, match="list of names"):
            score(["a"], [["a"]], names)
    for name in (["bleu"], None):
        with pytest.raises(UsageError, match="unknown metric"):
            score(["a"], [["a"]], [name])
    with pytest.raises(UsageError, match="language must be a code"):
        score(["a"], [["a"]], ["bleu"], language="English")


# T25: empty outputs
@pytest.mark.parametrize("metric", sorted(set(OFFLINE) - {"empty", "repetition"}))
def test_all_empty_outputs_score_zero(metric):
    assert score(["", " "], [["a b c d e"], ["f g", "h"]], [metric])[metric] == 0


def test_an_empty_output_is_kept_and_counted():
    outputs, references = ["the red house", ""], [["the red house"], ["the blue house"]]
    values = score(outputs, references, ["rougeL", "empty", "length_ratio"])
    assert values == {"rougeL": 50, "empty": 0.5, "length_ratio": 0.5}
    assert score(outputs, references, ["rougeL"], per_example=True) == {"rougeL": [100, 0]}


# T26: line ends inside an output
@pytest.mark.parametrize("end", ["\n\n", "\r", "\u2028", "\x0b"])
@pytest.mark.parametrize("metric", ["bleu", "chrf", "rouge1", "rougeL", "nist", "cider", "length_ratio"])
def test_line_ends_inside_outputs_shift_nothing(metric, end):
    outputs = ["the red house on the hill", "a blue boat in the harbour"]
    references = [["the red house near the hill"], ["the blue boat in a harbour", "a boat"]]
    broken = [output.replace(" ", end, 1) for output in outputs]
    assert score(broken, references, [metric], per_example=True)[metric] == pytest.approx(
        score(outputs, references, [metric], per_example=True)[metric]
    )


# T27: ragged references
def test_ragged_references_reach_bleu_padded():
    outputs, references = (
        ["the red house is here", "a blue boat"],
        [["the red house is there"], ["a boat", "a blue boat"]],
    )
    found = score_with_intervals(outputs, references, ["e2e_bleu"])["e2e_bleu"]
    import sacrebleu

    columns = [[references[0][0], references[1][0]], [None, references[1][1]]]
    assert found.value == pytest.approx(sacrebleu.corpus_bleu(outputs, columns, lowercase=True).score)
    assert "nrefs:var" in found.signature and "case:lc" in found.signature


# T32: no network
def test_offline_metrics_need_no_socket(monkeypatch):
    def refuse(*_args, **_kwargs):
        raise OSError("no network in this test")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "create_connection", refuse)
    assert all(v is not None for v in score(["a b"], [["a c"]], OFFLINE).values())


def test_hub_metrics_are_unavailable_with_a_reason(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    found = score_with_intervals(["a"], [["a"]], ["meteor", "comet", "rougeL"])
    assert found["meteor"].value is None and "does not answer" in found["meteor"].reason
    assert "source" in found["comet"].reason
    assert found["rougeL"].value == 100
    with pytest.warns(UserWarning, match="'meteor' is unavailable"):
        assert score(["a"], [["a"]], ["meteor"]) == {"meteor": None}


def fake_evaluate(monkeypatch, load):
    """The package takes ten seconds to import."""
    monkeypatch.setattr("harness.scoring.hub_metrics.hub_answers", lambda: True)
    monkeypatch.setitem(sys.modules, "evaluate", SimpleNamespace(load=load, __version__="0"))


def test_hub_metrics_keep_per_example_values(monkeypatch):
    class Fake:
        def compute(self, predictions, references, lang):
            assert references == [["a", "b"], ["c"]] and lang == "en"
            return {"f1": [0.5, 1.0]}

    fake_evaluate(monkeypatch, lambda name: Fake())
    assert score(["a", "c"], [["a", "b"], ["c"]], ["bertscore"], per_example=True) == {"bertscore": [50, 100]}


def test_a_broken_hub_metric_hurts_no_other(monkeypatch):
    def broken(name):
        raise ImportError("bert_score is not installed")

    fake_evaluate(monkeypatch, broken)
    found = score_with_intervals(["a"], [["a"]], ["bertscore", "empty"])
    assert "bert_score is not installed" in found["bertscore"].reason and found["empty"].value == 0


# Small metrics
def test_length_ratio_takes_the_closest_reference_and_is_a_ratio_of_sums():
    outputs = ["a b c", "a b c d e f"]
    references = [["a b", "a b c d e f g"], ["a b c"]]
    assert score(outputs, references, ["length_ratio"])["length_ratio"] == pytest.approx(9 / 5)


def test_repetition_counts_repeated_four_grams():
    assert one("a b c d a b c d", "x", "repetition") == pytest.approx(1 / 5)
    assert one("a b c", "x", "repetition") == 0


def test_nist_by_hand():
    """One output, one reference of 4 words with one repeated: information 1 (a), 2 (b, c); 2-grams 1 (a b, a c), 0."""
    expected = (1 + 2 + 1 + 2) / 4 + (1 + 0 + 1) / 3 + (0 + 0) / 2 + 0 / 1
    assert one("a b a c", "a b a c", "nist") == pytest.approx(expected)
    shorter = (1 + 2 + 1) / 3 + (1 + 0) / 2 + 0
    penalty = math.exp(math.log(0.5) / math.log(1.5) ** 2 * math.log(3 / 4) ** 2)
    assert one("a b a", "a b a c", "nist") == pytest.approx(shorter * penalty)


def test_importing_the_package_loads_no_heavy_library():
    code = "import harness.scoring, sys; print({'numpy', 'sacrebleu', 'nltk', 'scipy', 'torch'} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "set()"
