"""CNN/DailyMail 3.0.0: a news article in, its highlights out, one a line (Hermann et al. 2015; See et al. 2017)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from harness import Example, register_task

from .files import Row, texts
from .floors import lead
from .hub import HubFile
from .sources import SourcedTask

HUB = ("abisee/cnn_dailymail", "96df5e686bee6baa90b8bee7c28b81fa3fa6223d")


@register_task("cnn_dm")
class CnnDm(SourcedTask):
    """Multi-sentence summaries. ROUGE-Lsum, over lines, is what the literature calls ROUGE-L here."""

    language = "en"
    metrics = ("rougeLsum", "rouge1", "rouge2", "rougeL", "length_ratio", "empty", "repetition")
    document_field = "article"
    max_prompt_tokens = 768
    max_output_tokens = 128

    folder = "cnndm"
    columns = ("article",)
    target = "highlights"
    prompt_template = "{article}\n\nTL;DR:"
    sizes: ClassVar[dict[str, int]] = {"train": 692, "validation": 1000, "test": 500}
    comparable = (
        "Local data: none; its test set is the first 500 rows, nearly all CNN, with shorter summaries than the whole "
        "test set, and 692 training rows are too few. Hub data: the whole sets; published ROUGE is mostly ROUGE-1.5.5 "
        "on tokenised references, about 0.2 points above rouge-score's."
    )
    hub_files: ClassVar[dict[str, HubFile]] = {
        split: HubFile(*HUB, f"3.0.0/{split}-*.parquet") for split in ("train", "validation", "test")
    }
    floors: ClassVar = {"lead-3": lambda example: lead(example.fields["article"])}

    def examples(self, rows: Iterable[Row]) -> list[Example]:
        """One example a row."""
        return [
            Example(str(number), {"article": row["article"]}, texts(row, self.target))
            for number, row in enumerate(rows)
        ]

    def stand_in(self, split: str) -> list[Row]:
        """Invented news."""
        from .stand_ins import cnn_dm

        return cnn_dm.rows(split)
