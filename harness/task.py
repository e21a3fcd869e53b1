"""What a task is: examples with references, the text of a prompt, and how its outputs are scored.

A task plug-in is one file with one class:

    @register_task("my_task")
    class MyTask(Task):
        metrics = ("bleu",)
        def load(self, split): return [Example(id="0", fields={"source": "…"}, references=("…",))]
        def prompt(self, example): return example.fields["source"] + "\\n=>"
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import ClassVar, NamedTuple

from .errors import SkipbenchError, UsageError
from .plain_text import prompt_ids, texts_ids
from .registry import TASKS


@dataclass(frozen=True)
class Example:
    """One instance: `id` is unique and stable in its split; every reference is an acceptable output."""

    id: str
    fields: Mapping[str, str]
    references: tuple[str, ...]

    def __post_init__(self) -> None:
        references = self.references
        if not isinstance(references, (list, tuple)) or not all(isinstance(r, str) for r in references):
            raise UsageError(f"example {self.id!r}: references must be a list of strings, not {references!r:.60}")
        if not isinstance(self.fields, Mapping):
            raise UsageError(
                f"example {self.id!r}: fields must be a mapping from names to texts, not {self.fields!r:.60}"
            )
        if not all(isinstance(part, str) for pair in self.fields.items() for part in pair):
            object.__setattr__(self, "fields", _with_plain_numbers(self.fields))
        object.__setattr__(self, "references", tuple(references))
        object.__setattr__(self, "id", str(self.id))


def _with_plain_numbers(value: object) -> object:
    """Numbers of numpy and the like, as data frames hand them out, as Python's own."""
    if getattr(value, "shape", None) == ():
        return value.item()
    if isinstance(value, Mapping):
        return {_with_plain_numbers(key): _with_plain_numbers(item) for key, item in value.items()}
    return type(value)(map(_with_plain_numbers, value)) if type(value) in (list, tuple) else value


class Task:
    """Base class of tasks. Subclasses set the class attributes and write `load` and `prompt`.

    `source` says where the examples came from: `local`, `hub`, `stand-in`, or `plug-in` for a task that brings its own.
    """

    name: ClassVar[str] = ""
    language: ClassVar[str] = "en"  # of the outputs
    metrics: ClassVar[tuple[str, ...]] = ("rougeL", "length_ratio")  # the first is the task's main metric
    document_field: ClassVar[str | None] = None  # the only field that may be cut when a prompt is too long
    max_prompt_tokens: ClassVar[int] = 256
    max_output_tokens: ClassVar[int] = 64
    variants: ClassVar[tuple[str, ...]] = ()  # e.g. language pairs; the first is the default
    data_modules: ClassVar[tuple[str, ...]] = ()  # that make examples: hashed with the data, not with the task's code
    sizes: ClassVar[Mapping[str, int]] = {}  # examples by split, as far as they are known without loading any
    comparable: ClassVar[str] = ""  # which published numbers ours can be compared with, and which not

    def __init__(self, data: str | Path | None = None, variant: str | None = None) -> None:
        self.data = Path(data) if data is not None else None
        self.variant = variant or (self.variants[0] if self.variants else None)

    @property
    def label(self) -> str:
        """The name with its variant, as it stands in tables: `translation:de-en`."""
        return f"{self.name}:{self.variant}" if self.variant else self.name

    @property
    def source(self) -> str:
        """Where the examples come from."""
        return "plug-in"

    def load(self, split: str) -> Sequence[Example]:
        """The examples of `train`, `validation` or `test`, in a fixed order."""
        raise NotImplementedError(f"task {self.name!r} does not implement load(split)")

    def prompt(self, example: Example) -> str:
        """The text a model continues."""
        raise NotImplementedError(f"task {self.name!r} does not implement prompt(example)")

    @property
    def floor_names(self) -> tuple[str, ...]:
        """Names of the trivial outputs `floor_outputs` gives: what a method must beat before its quality means much."""
        return ()

    def floor_outputs(self, split: str) -> dict[str, list[str]]:
        """Trivial outputs by floor name, one for each example of the split."""
        return {}

    def data_hash(self, split: str) -> str:
        """SHA-256 over the examples of a split: part of every run id and checkpoint key."""
        return hash_examples(examples_of(self, split))


def examples_of(task: Task, split: str) -> list[Example]:
    """The examples of a split, checked. Raises UsageError, whatever a task's `load` may raise or return."""
    where = f"task {task.label!r}: load({split!r})"
    try:
        examples = list(task.load(split))
    except SkipbenchError:
        raise
    except Exception as error:
        raise UsageError(f"{where} fails: {type(error).__name__}: {error}") from error
    if not examples or not all(isinstance(example, Example) for example in examples):
        wrong = next((example for example in examples if not isinstance(example, Example)), "none")
        raise UsageError(f"{where} must return at least one Example, and nothing else, not {wrong!r:.60}")
    twice = [name for name, count in Counter(example.id for example in examples).items() if count > 1]
    if twice:
        raise UsageError(f"{where}: the id {twice[0]!r} belongs to several examples; ids are unique in a split")
    for example in examples:
        if not example.references or not all(map(str.strip, example.references)):
            raise UsageError(
                f"{where}: example {example.id!r} needs at least one reference, and none that is blank, not "
                f"{list(example.references)!r:.60}"
            )
        _check_fields(example, where)
    return examples


def _check_fields(example: Example, where: str) -> None:
    """Raise UsageError for a field that `hash_examples` cannot hash."""
    for key, value in example.fields.items():
        if isinstance(key, str) and (value is None or isinstance(value, (str, int, float))):
            continue
        try:
            json.dumps({key: value}, sort_keys=True)
            sorted(example.fields)
        except (TypeError, ValueError, RecursionError) as error:
            raise UsageError(
                f"{where}: example {example.id!r}: field {key!r} is a {type(value).__name__} that cannot be hashed "
                f"({error}); give it as a text or a number, under a text"
            ) from error


def hash_examples(examples: Sequence[Example]) -> str:
    """SHA-256 of the examples' ids, fields and references, in order."""
    digest = hashlib.sha256()
    for example in examples:
        row = [example.id, dict(example.fields), list(example.references)]
        digest.update(json.dumps(row, sort_keys=True, ensure_ascii=False).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def comparison(task: Task) -> str | None:
    """What a record says of comparing its numbers with published ones; None where the task says nothing."""
    if task.source == "stand-in":
        return "Invented stand-ins for the data set: with no published number."
    return str(task.comparable) or None


def load_task(name: str, data: str | Path | None = None) -> Task:
    """The task registered as `name`; `name:variant` picks a variant. Raises UsageError for unknown names."""
    base, colon, variant = str(name).partition(":")
    cls = TASKS.load(base)
    if colon and variant not in cls.variants:
        known = ", ".join(f"{base}:{v}" for v in cls.variants) or f"{base} has no variants"
        raise UsageError(f"unknown task {name!r}; choose from: {known}")
    return cls(data=data, variant=variant or None)


class EncodedPrompt(NamedTuple):
    """Token ids of one prompt; `truncated` says that the document field was cut."""

    ids: list[int]
    truncated: bool


def encode_prompt(task: Task, example: Example, tokenizer, max_tokens: int) -> EncodedPrompt:
    """Tokenise one prompt to at most `max_tokens` ids, with one BOS if the tokenizer uses one, never two.

    A prompt that is too long loses words from the end of the task's document field only, so the instruction and the
    cue after it stay. The name of a special token is text in an example's fields, and the token in the task's template.

    Raises UsageError if a prompt does not fit even with an empty document, or if fields and template both name special
    tokens.
    """
    ids = _encode(task, example, tokenizer)
    if len(ids) <= max_tokens:
        return EncodedPrompt(ids, False)
    field = task.document_field
    if field is None or field not in example.fields:
        raise UsageError(
            f"task {task.label!r}: the prompt of example {example.id!r} has {len(ids)} tokens, more than {max_tokens}, "
            "and the task names no document field to cut; raise max_prompt_tokens or set document_field"
        )
    return EncodedPrompt(_cut_document(task, example, field, tokenizer, max_tokens), True)


def _cut_document(task: Task, example: Example, field: str, tokenizer, max_tokens: int) -> list[int]:
    document = example.fields[field]
    low, high, best = 0, len(document), None  # characters kept: a binary search for the most that fit
    while low <= high:
        keep = (low + high) // 2
        shorter = replace(example, fields={**example.fields, field: document[:keep].rstrip()})
        ids = _encode(task, shorter, tokenizer)
        if len(ids) <= max_tokens:
            low, best = keep + 1, ids
        else:
            high = keep - 1
    if best is None:
        raise UsageError(
            f"task {task.label!r}: the prompt of example {example.id!r} does not fit into {max_tokens} tokens even "
            f"with an empty {field!r}; raise max_prompt_tokens"
        )
    return best


def encode_output(reference: str, tokenizer) -> list[int]:
    """Token ids of one reference as a model should produce it: a leading space, no BOS, EOS at the end."""
    return encode_outputs([reference], tokenizer)[0]


def encode_outputs(references: Sequence[str], tokenizer) -> list[list[int]]:
    """`encode_output` of many references at once, which fast tokenizers do in parallel."""
    texts = [output_text(reference) for reference in references]
    end = [] if tokenizer.eos_token_id is None else [tokenizer.eos_token_id]
    return [[*ids, *end] for ids in texts_ids(texts, tokenizer)]


def output_text(reference: str) -> str:
    """A reference as a model should produce it after a prompt: with a leading space."""
    return " " + reference.strip()


def decode_output(ids: Sequence[int], tokenizer) -> str:
    """The text of output token ids, without special tokens and outer white space."""
    return tokenizer.decode(list(ids), skip_special_tokens=True).strip()


def _encode(task: Task, example: Example, tokenizer) -> list[int]:
    ids = prompt_ids(lambda fields: task.prompt(replace(example, fields=fields)), example.fields, tokenizer)
    bos = tokenizer.bos_token_id
    return [bos, *ids] if _adds_bos(tokenizer) and ids[:1] != [bos] else ids


@lru_cache(maxsize=8)
def _adds_bos(tokenizer) -> bool:
    """Whether the tokenizer itself would put a BOS in front."""
    bos = tokenizer.bos_token_id
    return bos is not None and tokenizer("")["input_ids"][:1] == [bos]
