"""Our scores of published outputs equal the published scores."""

import json
import re
from collections import defaultdict
from functools import lru_cache

import pytest
from real_data import real_data, rows

from harness import load_task, score

E2E_SYSTEMS = ["tgen", "slug", "tnt1", "zhang", "forge1", "tr2"]
WMT_SYSTEMS = [
    ("de-en", "Online-B"), ("de-en", "JDExploreAcademy"), ("de-en", "LT22"), ("de-en", "PROMT"),
    ("zh-en", "Online-B"), ("zh-en", "JDExploreAcademy"), ("zh-en", "HuaweiTSC"), ("zh-en", "Online-G"),
]  # fmt: skip


@lru_cache
def e2e_outputs():
    outputs = defaultdict(dict)
    for row in rows("e2e/system_outputs.jsonl.gz"):
        outputs[row["system"]][row["mr"]] = row["output"]
    return outputs


@lru_cache
def wmt_outputs():
    outputs = defaultdict(dict)
    for row in rows("translation/wmt22_systems.jsonl.gz"):
        outputs[row["pair"], row["system"]][row["row"]] = row["output"]
    return outputs


@pytest.mark.parametrize("system", E2E_SYSTEMS)
def test_e2e_scores_equal_the_challenge(system):
    expected = json.loads((real_data() / "e2e/expected_scores.json").read_text())["systems"][system]
    examples = load_task("e2e", data=real_data()).load("test")
    outputs = [e2e_outputs()[system][example.fields["mr"]] for example in examples]
    names = ["e2e_bleu", "e2e_nist", "e2e_rougeL", "e2e_cider"]
    found = score(outputs, [example.references for example in examples], names)
    assert round(found["e2e_bleu"] / 100, 4) == expected["BLEU"]
    assert found["e2e_nist"] == pytest.approx(expected["NIST"], abs=0.0002)
    assert found["e2e_rougeL"] == pytest.approx(100 * expected["ROUGE_L"], abs=0.06)
    assert found["e2e_cider"] == pytest.approx(expected["CIDEr"], abs=0.006)


def test_e2e_example_of_the_metrics_repository():
    official = json.loads((real_data() / "e2e/expected_scores.json").read_text())["metrics_example"]["official"]
    examples = rows("e2e/metrics_example.jsonl.gz")
    found = score([e["output"] for e in examples], [e["refs"] for e in examples], ["e2e_bleu", "e2e_nist"])
    assert round(found["e2e_bleu"] / 100, 4) == official["BLEU"]
    assert found["e2e_nist"] == pytest.approx(official["NIST"], abs=0.0002)


def check_wmt(pair, system, metrics, kinds):
    published = json.loads((real_data() / "translation/wmt22_published_scores.json").read_text())["systems"]
    expected = next(p["scores"] for p in published if (p["pair"], p["system"]) == (pair, system))
    examples = load_task(f"translation:{pair}", data=real_data()).load("wmt22")
    outputs = [wmt_outputs()[pair, system][number] for number in range(len(examples))]
    for kind, chosen in kinds.items():
        found = score(outputs, [[example.references[i] for i in chosen] for example in examples], metrics)
        assert found == pytest.approx({m: expected[f"{m}-{kind}"] for m in metrics}, abs=0.0005)


def test_wmt22_bleu_and_chrf_equal_the_published():
    check_wmt("zh-en", "HuaweiTSC", ["bleu", "chrf"], {"A": [0]})
    check_wmt("de-en", "LT22", ["bleu"], {"A": [0], "B": [1], "all": [0, 1]})


@pytest.mark.long
@pytest.mark.parametrize("pair, system", WMT_SYSTEMS)
def test_wmt22_all_systems_and_references(pair, system):
    check_wmt(pair, system, ["bleu", "chrf"], {"A": [0], "B": [1], "all": [0, 1]})


def simcls():
    cut = re.compile(r" ([.!?]) ")
    pairs = rows("cnndm/rouge_check_simcls.jsonl.gz")
    return [cut.sub(r" \1\n", p["candidate"]) for p in pairs], [[cut.sub(r" \1\n", p["reference"])] for p in pairs]


@pytest.mark.long
def test_rouge_of_simcls():
    found = score(*simcls(), ["rouge1", "rouge2", "rougeL", "rougeLsum"])
    expected = {"rouge1": 46.40, "rouge2": 22.08, "rougeL": 31.46, "rougeLsum": 43.32}
    assert found == pytest.approx(expected, abs=0.02)


@pytest.mark.long
def test_paired_bootstrap_agrees_with_sacrebleu_on_wmt22(monkeypatch):
    from sacrebleu.metrics import BLEU
    from sacrebleu.significance import PairedTest

    from harness.scoring import paired_test

    monkeypatch.setenv("SACREBLEU_SEED", "12345")
    examples = load_task("translation:de-en", data=real_data()).load("wmt22")
    references = [[example.references[0]] for example in examples]
    one, two = ([wmt_outputs()["de-en", s][i] for i in range(len(examples))] for s in ("Online-B", "JDExploreAcademy"))
    columns = [[r[0] for r in references]]
    expected = PairedTest([("one", one), ("two", two)], {"BLEU": BLEU()}, columns, "bs")()[1]["BLEU"]
    found = paired_test(one, two, references, ["bleu"], seed=12345)["bleu"]
    assert found.p_value == pytest.approx(expected[1].p_value, abs=0.02)


def test_lead_3_of_the_local_cnn_rows_is_pinned():
    """T28: the recipe (sentence cut, stemmer, lines) is fixed, so is the floor."""
    task = load_task("cnn_dm", data=real_data())
    references = [example.references for example in task.load("test")]
    found = score(task.floor_outputs("test")["lead-3"], references, ["rouge1", "rouge2", "rougeLsum"])
    assert found == pytest.approx({"rouge1": 30.28, "rouge2": 11.90, "rougeLsum": 27.02}, abs=0.01)
