"""Translation: German, Chinese and Romanian into English, English into German and Chinese.

`train`, `validation` and `test` of a pair are of one kind (picture descriptions for German, everyday sentences for
Chinese and Romanian), so that a small model trained here can be judged; news and the other test sets are further
splits: `train_news`, `wmt22`, `newstest2019`, … (`splits` lists them). Only local data has those.

The instruction stands after the text, as the authors of Unified Layer Skipping put it; the variant `de-en-before` and
its like put it before.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar, NamedTuple

from harness import Example, register_task
from harness.errors import UsageError

from .files import Row, texts
from .hub import HubFile
from .sources import SPLITS, SourcedTask

LANGUAGES = {"de": "German", "en": "English", "ro": "Romanian", "zh": "Chinese"}
PAIRS = ("de-en", "en-de", "zh-en", "en-zh", "ro-en")
AFTER = "{{source}}\nTranslate the text above from {source} into {target}:"
BEFORE = "Translate the text below from {source} into {target}.\n{{source}}\n=>"

MULTI30K = ("bentrevett/multi30k", "95bca55cfe18eb805d1a6d505e683430633c57c7")  # its automatic parquet conversion
OPUS100 = ("Helsinki-NLP/opus-100", "805090dc28bf78897da9641cdf08b61287580df9")
OPUS100_ROWS = 100_000  # of a million: more than a small model sees


class Part(NamedTuple):
    """A split's file, without suffix, and its number of rows; `hold_out` says which rows of a shared file it takes."""

    stem: str
    rows: int
    hold_out: bool | None = None


HOLD_OUT = 20  # every 20th different source of the Romanian training file validates
_GERMAN = {
    "train": Part("multi30k.train", 29000),
    "validation": Part("multi30k.validation", 1014),
    "test": Part("multi30k.test_2016_flickr", 1000),
    "test_2017": Part("multi30k.test_2017_flickr", 1000),
    "test_2018": Part("multi30k.test_2018_flickr", 1071),
    "test_coco": Part("multi30k.test_2017_mscoco", 461),
    "train_news": Part("newstest2008-2013.de-en", 16071),
    "flores200": Part("flores200.devtest", 1012),
}
_CHINESE = {
    "train": Part("tatoeba.en-zh.train", 26894),
    "validation": Part("tatoeba.en-zh.validation", 1161),
    "test": Part("tatoeba.en-zh.test", 1100),
    "train_news": Part("newstest2017-2018.zh-en", 5982),
    "flores200": Part("flores200.devtest", 1012),
}
PARTS: dict[str, dict[str, Part]] = {
    "de-en": _GERMAN
    | {
        "wmt22": Part("wmt22.de-en", 1984),
        "newstest2016": Part("newstest2016.de-en", 2999),
        "newstest2019": Part("newstest2019.de-en", 2000),
        "newstest2020": Part("newstest2020.de-en", 785),
        "spec_bench": Part("spec_bench_80.de-en", 80),
    },
    "en-de": _GERMAN
    | {
        "wmt22": Part("wmt22.en-de", 2037),
        "newstest2019": Part("newstest2019.en-de", 1997),
        "newstest2020": Part("newstest2020.en-de", 1418),
    },
    "zh-en": _CHINESE
    | {
        "wmt22": Part("wmt22.zh-en", 1875),
        "newstest2019": Part("newstest2019.zh-en", 2000),
        "newstest2020": Part("newstest2020.zh-en", 2000),
    },
    "en-zh": _CHINESE | {"wmt22": Part("wmt22.en-zh", 2037)},
    "ro-en": {
        "train": Part("tatoeba_test.en-ro", 9523, hold_out=False),
        "validation": Part("tatoeba_test.en-ro", 496, hold_out=True),
        "test": Part("newstest2016.ro-en", 1999),
        "flores200": Part("flores200.devtest", 1012),
    },
}


@register_task("translation")
class Translation(SourcedTask):
    """One language pair, named by the variant; the outputs' language decides how they are scored."""

    metrics = ("bleu", "chrf", "length_ratio", "empty", "repetition")
    document_field = "source"
    max_prompt_tokens = 160
    max_output_tokens = 96
    variants = PAIRS + tuple(f"{pair}-before" for pair in PAIRS)

    folder = "translation"
    comparable = (
        "BLEU and chrF of a whole wmt22, newstest or Multi30k set are sacreBLEU's and equal published ones computed "
        "with it; wmt22 has two references, published scores say which they use. The Tatoeba splits are our own."
    )
    floors: ClassVar = {"copied source": lambda example: example.fields["source"]}

    def __init__(self, data: str | Path | None = None, variant: str | None = None) -> None:
        super().__init__(data, variant)
        self.pair = self.variant.removesuffix("-before")
        self.from_language, self.language = self.pair.split("-")
        self.parts = PARTS[self.pair]
        self.sizes = {split: part.rows for split, part in self.parts.items()}
        self.columns = (self.from_language,)
        self.target = f"{self.language}|{self.language}_ref_*"
        form = BEFORE if self.variant.endswith("-before") else AFTER
        self.prompt_template = form.format(source=LANGUAGES[self.from_language], target=LANGUAGES[self.language])
        self.hub_files = {split: self._hub_file(split) for split in SPLITS}

    @property
    def splits(self) -> tuple[str, ...]:
        """Names `load` takes: train, validation, test, and the further sets of this pair."""
        return tuple(self.parts)

    def stems(self, split: str) -> tuple[str, ...]:
        """The file a split is in."""
        return (self.parts[split].stem,)

    def examples(self, rows: Iterable[Row]) -> list[Example]:
        """One example a row; columns `en_ref_A`, `en_ref_B`, … are references of one source."""
        return [
            Example(str(number), {"source": row[self.from_language]}, texts(row, self.target))
            for number, row in enumerate(rows)
        ]

    def _load(self, split: str) -> list[Example]:
        if self.source != "local" and split not in SPLITS:
            raise UsageError(
                f"task {self.label!r}: split {split!r} is in the local data only; name its folder with --data or "
                f"SKIPBENCH_DATA (it holds {self.folder}/{self.parts[split].stem}.jsonl.gz)"
            )
        examples = super()._load(split)
        part = self.parts[split]
        if part.hold_out is None or self.source != "local" or part.stem not in self.local_files(split)[0].name:
            return examples
        order = {source: number for number, source in enumerate(dict.fromkeys(e.fields["source"] for e in examples))}
        return [e for e in examples if (order[e.fields["source"]] % HOLD_OUT == 0) == part.hold_out]

    def stand_in(self, split: str) -> list[Row]:
        """Invented sentences of one pattern."""
        from .stand_ins import translation

        return translation.rows(self.from_language, self.language, split)

    def _hub_file(self, split: str) -> HubFile:
        if "de" in self.pair.split("-"):
            return HubFile(*MULTI30K, f"default/{split}/*.parquet")
        first, second = sorted(self.pair.split("-"))
        rows = OPUS100_ROWS if split == "train" else None
        return HubFile(*OPUS100, f"{first}-{second}/{split}-*.parquet", rows)

    def from_hub(self, rows: Iterable[Row]) -> Iterable[Row]:
        """OPUS-100 keeps both sides in one column."""
        return (row.get("translation", row) for row in rows)
