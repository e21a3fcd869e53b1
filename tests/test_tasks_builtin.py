"""The four tasks: counts of the real data, prompts, stand-ins, floors."""

import statistics
import subprocess
import sys

import pytest
from real_data import real_data

from harness import load_task, score
from harness.errors import UsageError
from harness.registry import TASKS
from harness.task import hash_examples
from tasks import sources
from tasks.sources import generator_hash

PAIRS = ("de-en", "en-de", "zh-en", "en-zh", "ro-en")
NAMES = ("e2e", "reddit_tldr", "cnn_dm", *(f"translation:{pair}" for pair in PAIRS))
SPLITS = ("train", "validation", "test")


@pytest.fixture
def stand_in(monkeypatch, tmp_path):
    """Loads a task from its stand-in."""
    monkeypatch.delenv("SKIPBENCH_DATA", raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr(sources, "CHECKOUT_DATA", tmp_path)
    return load_task


def test_all_four_are_registered():
    assert {"e2e", "reddit_tldr", "cnn_dm", "translation"} <= set(TASKS.names())


# The real data; T27: references grouped
@pytest.mark.parametrize("name", NAMES)
def test_every_local_split_has_its_stated_size(name):
    task = load_task(name, data=real_data())
    assert task.source == "local"
    assert {split: len(task.load(split)) for split in task.splits} == task.sizes
    assert set(SPLITS) <= set(task.splits)


@pytest.mark.parametrize(
    "name, split, count",
    [
        ("e2e", "test", 630),
        ("e2e", "validation", 547),
        ("reddit_tldr", "train", 9872),
        ("cnn_dm", "train", 692),
        ("translation:de-en", "wmt22", 1984),
        ("translation:zh-en", "wmt22", 1875),
        ("translation:en-de", "wmt22", 2037),
        ("translation:en-zh", "wmt22", 2037),
    ],
)
def test_loader_counts(name, split, count):
    assert len(load_task(name, data=real_data()).load(split)) == count


def test_e2e_references_are_grouped():
    task = load_task("e2e", data=real_data())
    numbers = {split: [len(e.references) for e in task.load(split)] for split in SPLITS}
    assert {split: sum(n) for split, n in numbers.items()} == {"train": 42061, "validation": 4672, "test": 4693}
    assert max(numbers["validation"]) == 43 and max(numbers["test"]) == 45
    assert len({e.fields["mr"] for e in task.load("test")}) == 630


def test_wmt22_has_both_references_in_order():
    example = load_task("translation:zh-en", data=real_data()).load("wmt22")[0]
    assert len(example.references) == 2 and example.references[0].endswith("punish him?")


def test_romanian_validation_is_held_out_of_training():
    task = load_task("translation:ro-en", data=real_data())
    train, validation = ({e.fields["source"] for e in task.load(s)} for s in ("train", "validation"))
    assert not validation & train
    assert task.data_hash("train") != task.data_hash("validation")


def test_german_training_file_serves_both_directions():
    there, back = (load_task(f"translation:{pair}", data=real_data()).load("test")[5] for pair in ("de-en", "en-de"))
    assert there.fields["source"] == back.references[0] and there.references[0] == back.fields["source"]


# Stand-ins
@pytest.mark.parametrize("name", NAMES)
def test_stand_ins_are_seeded_and_apart(stand_in, name):
    task = stand_in(name)
    assert task.source == "stand-in"
    parts = {split: task.load(split) for split in SPLITS}
    assert all(len({e.id for e in part}) == len(part) >= 100 for part in parts.values())
    prompts = {split: {task.prompt(e) for e in part} for split, part in parts.items()}
    assert not prompts["train"] & (prompts["validation"] | prompts["test"])
    code = (
        "from harness import load_task; from harness.task import hash_examples; "
        f"task = load_task({name!r}); print(hash_examples(task.load('test')), task.data_hash('test'))"
    )
    other = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONHASHSEED": "7", "HF_HUB_OFFLINE": "1"},
    )
    assert other.stdout.split() == [hash_examples(parts["test"]), task.data_hash("test")]


PINNED = {
    "e2e": "63116ee54496",
    "reddit_tldr": "db6f74c01530",
    "cnn_dm": "2339563f1ebb",
    "translation:de-en": "8ffe46b28310",
    "translation:en-de": "479b7985cccb",
    "translation:zh-en": "5d6418861259",
    "translation:en-zh": "191f6f10ab89",
    "translation:ro-en": "765574aa9ae6",
}


@pytest.mark.parametrize("name", NAMES)
def test_stand_ins_are_the_same_on_every_machine(stand_in, name):
    assert hash_examples(stand_in(name).load("test"))[:12] == PINNED[name]


def test_a_stand_ins_hash_costs_no_generating_and_follows_the_generator(stand_in, monkeypatch, tmp_path):
    task = stand_in("cnn_dm")
    monkeypatch.setattr(type(task), "stand_in", lambda *_: pytest.fail("generated"))
    before = {split: task.data_hash(split) for split in SPLITS}
    assert len(set(before.values())) == 3
    (tmp_path / "cnn_dm.py").write_text("# another generator")
    monkeypatch.setattr("tasks.sources.STAND_INS", tmp_path)
    generator_hash.cache_clear()
    assert task.data_hash("test") != before["test"]
    generator_hash.cache_clear()
    with pytest.raises(UsageError, match="unknown split"):
        task.data_hash("news")


@pytest.mark.parametrize(
    "name, prompt, output, words",
    [
        ("e2e", (8, 14), (17, 24), 250),
        ("reddit_tldr", (220, 300), (17, 26), 250),
        ("cnn_dm", (500, 660), (33, 48), 250),
        ("translation:de-en", (16, 24), (10, 15), 100),
    ],
)
def test_stand_ins_have_lengths_near_the_real_medians(stand_in, name, prompt, output, words):
    task = stand_in(name)
    examples = task.load("train")
    references = [reference for example in examples for reference in example.references]
    assert prompt[0] <= statistics.median(len(task.prompt(e).split()) for e in examples) <= prompt[1]
    assert output[0] <= statistics.median(len(r.split()) for r in references) <= output[1]
    assert len({word for r in references for word in r.split()}) < words


def test_e2e_stand_in_has_several_references(stand_in):
    numbers = [len(e.references) for e in stand_in("e2e").load("test")]
    assert min(numbers) >= 2 and statistics.median(numbers) >= 5


@pytest.mark.parametrize("name", NAMES)
def test_facts_of_a_stand_in_stand_in_the_first_160_words(stand_in, name):
    """Where prompts are cut, what the output needs must be left: every name of the output is there."""
    task = stand_in(name)
    if task.language != "en" or name.startswith("translation"):
        return
    for example in task.load("test")[:20]:
        start = " ".join(task.prompt(example).split()[:110])
        names = {word.strip(".,:") for word in example.references[0].split()[1:] if word[0].isupper()} - {
            "I",
            "My",
            "Now",
        }
        assert sum(name_ in start for name_ in names) >= 0.5 * len(names)


def test_languages_and_variants(stand_in):
    assert [stand_in(f"translation:{pair}").language for pair in PAIRS] == ["en", "de", "en", "zh", "en"]
    assert stand_in("translation").label == "translation:de-en"
    with pytest.raises(UsageError, match="translation:de-en"):
        stand_in("translation:fr-en")
    with pytest.raises(UsageError, match="split 'wmt22' is in the local data only"):
        stand_in("translation:de-en").load("wmt22")


def test_translation_of_ones_own(tmp_path):
    (tmp_path / "test.csv").write_text("de,en\nGuten Tag,Good day\n", encoding="utf-8")
    (example,) = load_task("translation:de-en", data=tmp_path).load("test")
    assert (example.fields["source"], example.references) == ("Guten Tag", ("Good day",))
    with pytest.raises(UsageError, match="no column 'ro'; it has 'de', 'en', needed are 'ro', 'en' or 'en_ref_\\*'"):
        load_task("translation:ro-en", data=tmp_path).load("test")


def test_every_reference_column_of_a_translation_is_checked(tmp_path):
    path = tmp_path / "test.jsonl"
    good = '{"de": "a", "en_ref_A": "x", "en_ref_B": ["y", "z"]}\n'
    for bad in ("null", "3", "[]"):
        path.write_text(good + good.replace('["y", "z"]', bad))
        with pytest.raises(UsageError, match=r"test\.jsonl, row 2: column 'en_ref_B' must be text or a list of texts"):
            load_task("translation:de-en", data=tmp_path).load("test")
    path.write_text(good)
    assert load_task("translation:de-en", data=tmp_path).load("test")[0].references == ("x", "y", "z")


def test_one_file_of_translations_has_three_splits(tmp_path):
    path = tmp_path / "mine.csv"
    path.write_text("de,en\n" + "".join(f"Wort {i},word {i}\n" for i in range(20)), encoding="utf-8")
    task = load_task("translation:en-de", data=path)
    assert [len(task.load(split)) for split in SPLITS] == [16, 2, 2]
    assert task.load("test")[1].references == ("Wort 19",)
    with pytest.raises(UsageError, match="has no split 'wmt22'"):
        task.load("wmt22")


# Floors
@pytest.mark.parametrize(
    "name, floors",
    [
        ("e2e", {"copied source"}),
        ("reddit_tldr", {"title", "lead-3"}),
        ("cnn_dm", {"lead-3"}),
        ("translation:en-zh", {"copied source"}),
    ],
)
def test_floors(stand_in, name, floors):
    task = stand_in(name)
    examples, outputs = task.load("test"), task.floor_outputs("test")
    assert set(outputs) == floors | {"most frequent reference"}
    assert all(len(texts) == len(examples) for texts in outputs.values())
    references = [e.references for e in examples]
    main = task.metrics[0]
    best = max(score(texts, references, [main], task.language)[main] for texts in outputs.values())
    perfect = score([r[0] for r in references], references, [main], task.language)[main]
    assert best < 45 < perfect


def test_lead_3_takes_three_sentences(stand_in):
    from tasks.floors import lead

    assert lead("One is here. Two?  Three!\nFour.") == "One is here.\nTwo?\nThree!"


def test_loading_a_task_imports_nothing_heavy():
    code = (
        "from harness import load_task; import sys; load_task('e2e').load('test'); "
        "print({'numpy', 'torch', 'datasets', 'pandas'} & set(sys.modules))"
    )
    found = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"HF_HUB_OFFLINE": "1"}
    )
    assert found.stdout.strip() == "set()"
