"""Reddit posts with their author's own TL;DR: one-sentence summaries (Völske et al. 2017; Stiennon et al. 2020)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import ClassVar

from harness import Example, register_task

from .files import Row, texts
from .floors import lead
from .hub import HubFile
from .sources import SourcedTask

HUB = ("trl-lib/tldr", "21233da376667088e6eb1ce4ce19ed832c2935d3")  # OpenAI's filtered set
HUB_PROMPT = re.compile(
    r"SUBREDDIT: r/(?P<subreddit>[^\n]*)\n+TITLE: (?P<title>.*?)\n+POST: (?P<post>.*?)\n*TL;DR:\s*$", re.DOTALL
)


@register_task("reddit_tldr")
class RedditTldr(SourcedTask):
    """Post in, summary out, in the prompt form of OpenAI's TL;DR set."""

    language = "en"
    metrics = ("rougeL", "rouge1", "rouge2", "rougeLsum", "length_ratio", "empty", "repetition")
    document_field = "post"
    max_prompt_tokens = 512
    max_output_tokens = 80

    folder = "tldr"
    columns = ("subreddit", "title", "post")
    target = "summary"
    prompt_template = "SUBREDDIT: r/{subreddit}\n\nTITLE: {title}\n\nPOST: {post}\n\nTL;DR:"
    sizes: ClassVar[dict[str, int]] = {"train": 9872, "validation": 1000, "test": 1000}
    comparable = (
        "Local data: none; it is neither Webis-TLDR-17 nor OpenAI's filtered set. Hub data: OpenAI's filtered set, "
        "whose published ROUGE depends on sampling and stemming."
    )
    hub_files: ClassVar[dict[str, HubFile]] = {
        split: HubFile(*HUB, f"data/{split}-*.parquet") for split in ("train", "validation", "test")
    }
    floors: ClassVar = {"title": lambda example: example.fields["title"], "lead-3": lambda e: lead(e.fields["post"])}

    def examples(self, rows: Iterable[Row]) -> list[Example]:
        """One example a row."""
        return [
            Example(str(number), {name: row[name] for name in self.columns}, texts(row, self.target))
            for number, row in enumerate(rows)
        ]

    def stand_in(self, split: str) -> list[Row]:
        """Invented posts."""
        from .stand_ins import reddit_tldr

        return reddit_tldr.rows(split)

    def from_hub(self, rows: Iterable[Row]) -> Iterable[Row]:
        """The hub holds whole prompts; this takes them apart again."""
        for row in rows:
            parts = HUB_PROMPT.match(row["prompt"])
            if parts is not None:
                yield {**parts.groupdict(), "summary": row["completion"].strip()}
