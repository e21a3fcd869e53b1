"""One quality run, start to finish: from its description to what stands in the results folder."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from ..backbone import Backbone
from ..backbone.builtin import BUILTIN, POSITIONS
from ..backbone.classifier import holds_exit_classifier
from ..decoding.sampling import Sampling
from ..method import LayerSchedule, Method
from ..method.parameters import load_method
from ..method.recording import record_parameters
from ..task import Task, comparison
from ..training import Checkpoint, Recipe, Setting, weights_identity
from ..tuning.artefact import artefact_facts, check_weights
from .identity import artefact_parameters, run_id, searchable, task_of
from .planning import QualityJob
from .quality import (
    Item,
    batches_of,
    decode_split,
    encode_split,
    padded,
    score_run,
    spread,
    teacher_forced_split,
)
from .workbench import Workbench


@dataclass
class QualityRun:
    """A quality job being worked on: everything it needs, made when it is first asked for."""

    job: QualityJob
    bench: Workbench

    @cached_property
    def id(self) -> str:
        return run_id(self.job)

    @cached_property
    def task(self) -> Task:
        return task_of(self.job.spec.task, self.job.data)

    @property
    def max_prompt_tokens(self) -> int:
        """The suite's limit, else the task's; never more than the model has positions for."""
        wanted = self.job.spec.decoding.max_prompt_tokens or self.task.max_prompt_tokens
        positions = POSITIONS if self.job.spec.model in BUILTIN else self._given_model().max_positions
        return wanted if positions is None else min(wanted, positions - self.max_new_tokens)

    @property
    def max_new_tokens(self) -> int:
        return self.job.spec.decoding.max_new_tokens or self.task.max_output_tokens

    @cached_property
    def setting(self) -> Setting:
        """What the base model is made of."""
        spec, training = self.job.spec, self.job.spec.training
        common = {"batch_size": training.batch_size}
        builtin = spec.model in BUILTIN
        return Setting(
            model=spec.model,
            task=self.task,
            seed=self.job.seed,
            base=Recipe(training.base_steps, learning_rate=training.base_learning_rate, **common) if builtin else None,
            own=Recipe(training.own_steps, learning_rate=training.own_learning_rate, **common),
            vocab_size=training.vocab_size,
            max_prompt_tokens=self.max_prompt_tokens,
            max_output_tokens=self.max_new_tokens,
            split=training.split,
        )

    @cached_property
    def num_layers(self) -> int:
        if self.setting.builtin:
            return BUILTIN[self.setting.model][1]
        return self._given_model().num_layers

    def _given_model(self) -> Backbone:
        options = self.job.spec.decoding
        return self.bench.load(self.job.spec.model, self.job.spec.model, options.dtype, options.device)

    @cached_property
    def uncalibrated(self) -> Method:
        """The method as its parameters or target make it."""
        job, lengths = self.job, self.bench.checkpoints.lengths(self.setting)
        target, params = job.target, dict(job.params)
        if job.tuned is not None:
            target, params = None, artefact_parameters(job, self.num_layers)
        return load_method(job.method, self.num_layers, target, lengths, **params)

    @cached_property
    def recipe(self) -> dict:
        """What training must know of the method."""
        return self.uncalibrated.recipe(self.setting.horizon)

    @cached_property
    def checkpoint(self) -> Checkpoint | None:
        """The weights: `own`, `base` or a folder; None for a model that brings its own."""
        checkpoints, kind = self.bench.checkpoints, self.job.checkpoint
        if kind == "own":
            return checkpoints.own(self.setting, self.recipe, self.job.method)
        return checkpoints.base(self.setting) if kind == "base" else None

    @cached_property
    def path(self) -> str:
        """Where the weights are loaded from: a folder or a model's name."""
        given = self.job.checkpoint
        return self.checkpoint.path if self.checkpoint else self.setting.model if given == "base" else given

    @property
    def tokenizer(self):
        """The weights' tokenizer, which what is trained here has from before."""
        if self.job.checkpoint not in ("own", "base"):
            return self.backbone.require_tokenizer()
        if self.setting.builtin:
            return self.bench.checkpoints.tokenizer(self.setting)
        return self._given_model().require_tokenizer()

    @cached_property
    def backbone(self) -> Backbone:
        """The model, with this run's exit classifier if the method's recipe asks for one and the model brings none."""
        options, path = self.job.spec.decoding, self.path
        backbone = self.bench.load(path, self.job.spec.model, options.dtype, options.device)
        if self.recipe.get("classifier") and (self.checkpoint or not holds_exit_classifier(path)):
            trained = self.bench.checkpoints.exit_classifier(self.setting, path, self.weights)
            backbone.give_exit_classifier(trained)  # in memory it may have an earlier run's
        return backbone

    @cached_property
    def method(self) -> Method:
        """The method with nothing left open: an early exit with a target has its threshold searched on validation."""
        method = self.uncalibrated
        if self.job.tuned is not None:
            check_weights(self.job.tuned, self.weights)
        if not self.searches:
            return method
        from ..tuning.calibrate import calibrate

        size = self.job.spec.decoding.batch_size
        batches = [padded(batch, self.backbone.fill_id) for batch in batches_of(self.calibration_items, size)]
        found = calibrate(self.backbone, method, batches, self.job.target, self.max_new_tokens)
        self.bench.say(f"{self.job.label}: {found.method.variant} gives {found.speedup:.2f}x on validation")
        return found.method

    @property
    def searches(self) -> bool:
        """Whether the method's setting is searched for on validation examples."""
        return self.job.tuned is None and searchable(self.job)

    @cached_property
    def calibration_items(self) -> list[Item]:
        """The validation examples of a search; none without one."""
        return self.validation_items(self.job.spec.calibration_examples) if self.searches else []

    def validation_items(self, count: int) -> list[Item]:
        """`count` validation examples, evenly spaced over the lengths of their prompts."""
        return spread(encode_split(self.task, "validation", None, self.tokenizer, self.max_prompt_tokens), count)

    def run(self) -> None:
        """Decode, score, record."""
        job, spec = self.job, self.job.spec
        items = encode_split(self.task, spec.split, spec.limit, self.tokenizer, self.max_prompt_tokens)
        _ = self.calibration_items  # these too: a prompt that does not fit is known before anything is trained
        backbone, method = self.backbone, self.method
        run = self.bench.store.open_run(self.id, self.config(len(items)))
        for note in run.notes:
            self.bench.say(note)
        tick = self.bench.start(job.label)
        decode_split(run, backbone, method, items, spec.decoding, self.max_new_tokens, job.seed, tick)
        forced = teacher_forced_split(backbone, method, items, self.max_new_tokens, spec.decoding.batch_size)
        for lack in score_run(run, self.task, items, backbone, job.seed, forced):
            self.bench.say(f"{job.label}: {lack}")

    def config(self, count: int) -> dict:
        """The content of run.json."""
        import torch

        from ..measuring import environment

        job, spec, backbone, method = self.job, self.job.spec, self.backbone, self.method
        steps = self.max_new_tokens - 1
        plan = LayerSchedule.recipe(method, steps) if isinstance(method, LayerSchedule) else None
        return {
            "suite": job.suite,
            "task": self.task.label,
            "split": spec.split,
            "source": self.task.source,
            "data_hash": self.task.data_hash(spec.split),
            "n": count,
            "limit": spec.limit,
            "model": model_facts(backbone, spec.model, self.weights),
            "checkpoint": job.checkpoint,
            "checkpoint_key": self.checkpoint.key if self.checkpoint else None,
            "method": method_facts(job, method),
            "plan": plan and {"prompt": plan["prompt"], "steps": plan["steps"]},
            "batch_size": spec.decoding.batch_size,
            "dtype": spec.decoding.dtype,
            "device": str(backbone.device),
            "threads": torch.get_num_threads(),
            "attention": backbone.attention,
            "decoding": Sampling(spec.decoding.temperature, spec.decoding.top_p).label,
            "seed": job.seed,
            "metrics": [*self.task.metrics, *spec.further_metrics(self.task.metrics)],
            "language": self.task.language,
            "comparable": comparison(self.task),
            "max_prompt_tokens": self.max_prompt_tokens,
            "max_new_tokens": self.max_new_tokens,
            "prompt_template": getattr(self.task, "prompt_template", None),
            "training": self.checkpoint.training if self.checkpoint else None,
            "environment": environment(),
        }

    @cached_property
    def weights(self) -> str:
        """SHA-256 of the weights that decode; of a hub model its commit."""
        if self.checkpoint is not None:
            return self.checkpoint.weights
        given = self.setting.model if self.job.checkpoint == "base" else self.job.checkpoint
        return weights_identity(given) or given


def model_facts(backbone: Backbone, name: str, weights: str) -> dict:
    """The model as run.json and timing files name it."""
    return {
        "name": name,
        "family": backbone.family,
        "num_layers": backbone.num_layers,
        "params": backbone.num_parameters,
        "weights": weights,
        **({"num_cycles": backbone.num_cycles} if backbone.num_cycles is not None else {}),
    }


def method_facts(job: QualityJob, method: Method) -> dict:
    """The method as run.json and timing files name it: every parameter it really had, beside those that were given."""
    return {
        "name": job.method,
        "variant": method.variant,
        "params": record_parameters(method),
        "target": job.target,
        "given": dict(job.params),
        **({"tuned": artefact_facts(job.tuned, job.target)} if job.tuned is not None else {}),
    }
