"""Checkpoints on disk: trained once, keyed by everything that made them, written atomically, reused.

`root/<key>/` is a folder `transformers` can load (`AutoModelForCausalLM.from_pretrained`), with `training.json` beside
the weights. The tokenizer and the lengths of a task's training examples have a folder of their own.
"""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path

from ..errors import UsageError
from ..method import Lengths
from .recipe import Recipe, key_of
from .setting import Checkpoint, Setting, text_hash, training_texts
from .weights import model_identity, weights_identity

ENVIRONMENT_VARIABLE = "SKIPBENCH_CHECKPOINTS"

# announce(title) -> progress callback of the training loop, or None
Announce = Callable[[str], Callable | None]


class Checkpoints:
    """The store. Keys need no torch; what is missing is trained when asked for."""

    def __init__(self, root: str | Path | None = None, announce: Announce | None = None) -> None:
        default = os.environ.get(ENVIRONMENT_VARIABLE) or Path(__file__).resolve().parents[2] / "checkpoints"
        self.root = Path(root or default)
        self.announce = announce or (lambda title: None)
        self._pairs: dict[str, list] = {}  # of the last task asked for, as is its tokenizer
        self._tokenizers: dict[str, object] = {}

    # -- keys -------------------------------------------------------------------------------------------------------

    def text_key(self, setting: Setting) -> str:
        """Key of the tokenizer and the encoded training examples."""
        return key_of(
            kind="text",
            tokenizer=f"bpe-{setting.vocab_size}" if setting.builtin else setting.model,
            task=setting.task.label,
            examples=text_hash(setting.task, setting.split),
            limits=[setting.max_prompt_tokens, setting.max_output_tokens],
        )

    def base_key(self, setting: Setting) -> str:
        """Key of the base model."""
        if not setting.builtin:
            return key_of(kind="given", model=setting.model, weights=model_identity(setting.model))
        return key_of(
            kind="base",
            model=setting.model,
            text=self.text_key(setting),
            positions=setting.max_positions,
            recipe=setting.base,
            seed=setting.seed,
        )

    def own_key(self, setting: Setting, objective: dict) -> str:
        """Key of the base trained on under an objective; a classifier is trained afterwards and changes no weight."""
        objective = {k: v for k, v in setting.trained_for(objective).items() if k != "classifier"}
        return key_of(
            kind="own",
            base=self.base_key(setting),
            text=self.text_key(setting),
            objective=objective,
            recipe=setting.own,
            seed=setting.seed,
        )

    # -- artefacts --------------------------------------------------------------------------------------------------

    def lengths(self, setting: Setting) -> Lengths:
        """Token lengths of the task's training examples."""
        file = self._text_folder(setting) / "lengths.json"
        values = json.loads(file.read_text())
        return Lengths(values["prompt"], values["output"], tuple(values["outputs"]))

    def tokenizer(self, setting: Setting):
        """The tokenizer of a setting, trained on the task for built-in models."""
        from transformers import AutoTokenizer

        if not setting.builtin:
            return _given_tokenizer(setting.model)
        folder = str(self._text_folder(setting))
        if folder not in self._tokenizers:
            self._tokenizers = {folder: AutoTokenizer.from_pretrained(folder, local_files_only=True)}
        return self._tokenizers[folder]

    def base(self, setting: Setting) -> Checkpoint | None:
        """The base model, trained if it is not there; None for a model that brings its own weights."""
        if not setting.builtin:
            return None
        key = self.base_key(setting)
        if not self._holds(key):
            self._train(setting, key, "base", setting.base, _full_objective(setting), self._fresh(setting))
        return self._read(key)

    def own(self, setting: Setting, objective: dict, label: str) -> Checkpoint:
        """The base trained on under `objective`; `label` names it while it trains."""
        key = self.own_key(setting, objective)
        if not self._holds(key):
            base = self.base(setting)
            backbone = self._load(base.path if base else setting.model)
            self._train(setting, key, label, setting.own, setting.trained_for(objective), backbone)
        return self._read(key)

    def exit_classifier(self, setting: Setting, name: str, weights: str):
        """CALM's classifier [width + 1] of the weights in `name`, trained on the task if it is not there.

        It has a key of its own: one model may be asked on several tasks, by several recipes and seeds.
        """
        from ..backbone.classifier import read_exit_classifier, save_exit_classifier

        parts = {"weights": weights, "text": self.text_key(setting), "recipe": setting.own, "seed": setting.seed}
        folder = self.root / key_of(kind="exit_classifier", **parts)
        if (found := read_exit_classifier(folder)) is None:
            folder.mkdir(parents=True, exist_ok=True)
            save_exit_classifier(self._train_classifier(setting, name), folder)
            found = read_exit_classifier(folder)
        return found

    # -- making -----------------------------------------------------------------------------------------------------

    def _fresh(self, setting: Setting):
        from ..backbone import Backbone
        from ..backbone.builtin import untrained

        tokenizer = self.tokenizer(setting)
        model = untrained(setting.model, len(tokenizer), setting.seed, setting.max_positions)
        return Backbone(model, tokenizer, setting.model)

    def _load(self, name: str):
        from ..backbone import Backbone

        return Backbone.load(name, "float32", _training_device())

    def _train(self, setting: Setting, key: str, label: str, recipe: Recipe, objective: dict, backbone) -> None:
        from ..backbone.looped import state_to_save
        from .loop import train

        state_file = self.root / f"{key}.state"
        progress = self.announce(f"train {setting.task.label} {setting.model} {label}")
        backbone.model.to(_training_device())
        pairs = self._training_pairs(setting, backbone.require_tokenizer())
        trained = train(backbone, pairs, objective, recipe, setting.seed, state_file, progress)
        with self._new_folder(key) as folder:
            backbone.model.save_pretrained(folder, state_dict=state_to_save(backbone.model))
            backbone.tokenizer.save_pretrained(folder)
            facts = {
                "model": setting.model,
                "task": setting.task.label,
                "source": setting.task.source,
                "label": label,
                "seed": setting.seed,
                "recipe": dataclasses.asdict(recipe),
                "objective": objective["objective"],
                **dataclasses.asdict(trained),
                "weights": weights_identity(str(folder)),
            }
            (folder / "training.json").write_text(json.dumps(facts, indent=1))
        state_file.unlink(missing_ok=True)

    def _train_classifier(self, setting: Setting, name: str):
        from .classifier import fit_exit_classifier

        backbone = self._load(name)
        pairs = self._training_pairs(setting, backbone.require_tokenizer())
        return fit_exit_classifier(backbone, pairs, setting.own, setting.seed)

    def _training_pairs(self, setting: Setting, tokenizer) -> list:
        from .batches import encode_pairs

        key = self.text_key(setting)
        if key not in self._pairs:
            self._pairs = {
                key: encode_pairs(
                    setting.task, setting.split, tokenizer, setting.max_prompt_tokens, setting.max_output_tokens
                )
            }
        return self._pairs[key]

    def _text_folder(self, setting: Setting) -> Path:
        key = self.text_key(setting)
        if not self._holds(key):
            self._make_text(setting, key)
        return self.root / key

    def _make_text(self, setting: Setting, key: str) -> None:
        from .batches import lengths_of
        from .tokenizer import train_tokenizer

        tokenizer = _given_tokenizer(setting.model) if not setting.builtin else None
        if tokenizer is None:
            tokenizer = train_tokenizer(training_texts(setting.task, setting.split), setting.vocab_size)
        lengths = lengths_of(self._training_pairs(setting, tokenizer))
        with self._new_folder(key) as folder:
            tokenizer.save_pretrained(folder)
            (folder / "lengths.json").write_text(json.dumps(dataclasses.asdict(lengths)))

    # -- files ------------------------------------------------------------------------------------------------------

    def _holds(self, key: str) -> bool:
        return (self.root / key).is_dir()

    def _read(self, key: str) -> Checkpoint:
        folder = self.root / key
        try:
            training = json.loads((folder / "training.json").read_text())
            return Checkpoint(str(folder), key, training["weights"], training)
        except (OSError, ValueError, KeyError) as error:
            raise UsageError(f"checkpoint {folder} is damaged ({error}); delete it and run again") from error

    @contextmanager
    def _new_folder(self, key: str):
        """A folder that appears under its name only when it is complete."""
        part = self.root / f"{key}.part-{os.getpid()}"
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        try:
            yield part
            if not self._holds(key):  # another process may have been faster
                part.replace(self.root / key)
        finally:
            shutil.rmtree(part, ignore_errors=True)


def _full_objective(setting: Setting) -> dict:
    from ..backbone.builtin import BUILTIN

    layers = list(range(BUILTIN[setting.model][1]))
    return setting.trained_for({"objective": "plan", "prompt": layers, "steps": [layers]})


def _given_tokenizer(model: str):
    from ..backbone import Backbone

    return Backbone.load(model).require_tokenizer()


def _training_device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"
