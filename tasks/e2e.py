"""E2E NLG: a restaurant's meaning representation in, one description out; several references share an instance.

Dušek, Novikova and Rieser, "Evaluating the State-of-the-Art of End-to-End Natural Language Generation" (2020).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from harness import Example, register_task

from .files import Row, texts
from .hub import HubFile
from .sources import SourcedTask

# The hub's repository holds a script; these parquet files are its own automatic conversion.
HUB = ("tuetschek/e2e_nlg", "5061e4307d2e553f9b51ccb73998d7039fe6ed90")


@register_task("e2e")
class E2E(SourcedTask):
    """Data to text. An example is one meaning representation with all its references, in the order of the file."""

    language = "en"
    metrics = ("e2e_bleu", "e2e_nist", "e2e_rougeL", "e2e_cider", "rougeL", "length_ratio", "empty", "repetition")
    document_field = "mr"
    max_prompt_tokens = 160
    max_output_tokens = 64

    folder = "e2e"
    columns = ("mr",)
    target = "ref"
    prompt_template = "{mr}\n=>"
    sizes: ClassVar[dict[str, int]] = {"train": 4862, "validation": 547, "test": 630}
    comparable = (
        "e2e_bleu and e2e_nist of the whole test set equal the challenge's; e2e_rougeL and e2e_cider differ by at most "
        "0.06 points and 0.006, because the official tokenizer is another. The training set is rebuilt from a "
        "tokenised copy."
    )
    floors: ClassVar = {"copied source": lambda example: example.fields["mr"]}
    hub_files: ClassVar[dict[str, HubFile]] = {
        split: HubFile(*HUB, f"default/{split}/*.parquet") for split in ("train", "validation", "test")
    }

    def examples(self, rows: Iterable[Row]) -> list[Example]:
        """Rows grouped by meaning representation, in the order of first appearance; `ref` may be a list."""
        groups: dict[str, list[str]] = {}
        for row in rows:
            groups.setdefault(row["mr"], []).extend(texts(row, self.target))
        return [
            Example(id=str(number), fields={"mr": mr}, references=tuple(references))
            for number, (mr, references) in enumerate(groups.items())
        ]

    def stand_in(self, split: str) -> list[Row]:
        """Invented restaurants."""
        from .stand_ins import e2e

        return e2e.rows(split)

    def from_hub(self, rows: Iterable[Row]) -> Iterable[Row]:
        """The hub names the columns `meaning_representation` and `human_reference`."""
        return ({"mr": row["meaning_representation"], "ref": row["human_reference"]} for row in rows)
