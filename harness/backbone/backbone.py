"""The model with its parts named."""

from __future__ import annotations

import inspect
from pathlib import Path

import torch
from torch import Tensor, nn

from ..errors import SkipbenchError, UsageError
from .families import family_of, part
from .looped import is_tied, num_cycles


class Backbone:
    """A supported causal LM, opened up layer by layer. The model itself is never changed.

    Args:
        model: a `transformers` causal LM of a supported family.
        tokenizer: its tokenizer, or None if only token ids are used.
        name: what tables call it; one name never means two weights.
        exit_classifier: [width + 1], weights and bias of CALM's confidence classifier, where the checkpoint has one.

    Raises UnsupportedModel for architectures whose layers cannot be skipped correctly.
    """

    def __init__(
        self, model: nn.Module, tokenizer=None, name: str | None = None, exit_classifier: Tensor | None = None
    ) -> None:
        family = family_of(model)
        if num_cycles(model.config) is not None and not is_tied(model):
            raise UsageError(
                "the model is looped (its config says num_cycles), but its cycles do not share their weights; load it "
                "with Backbone.load, or tie it first (harness.backbone.looped.tie_cycles)"
            )
        self.model, self.tokenizer, self.config = model, tokenizer, model.config
        self.name = name or getattr(model.config, "name_or_path", "") or type(model).__name__
        self.family = model.config.model_type
        self.body = part(model, family.body)
        self.layers_attribute = family.layers
        self.norm = part(self.body, family.norm)
        self.project = part(self.body, family.project)
        self.lm_head = model.get_output_embeddings()
        self.exit_classifier = self._checked_classifier(exit_classifier)
        self._dense_mask = family.dense_mask
        self._placeholder = torch.zeros(1, 1, 1, 1, dtype=self.dtype, device=self.device)
        self._cache_argument = _first_argument(self.body, "cache", "past_key_values")
        self._positions = {"position_ids"} & set(inspect.signature(self.body.forward).parameters)
        self.tuple_layers = self._layers_return_tuples()
        self.fused_weights: dict = {}  # copies for fused layers, refreshed at each use

    @classmethod
    def load(cls, name: str, dtype: str = "float32", device: str = "cpu") -> Backbone:
        """A model by hub name, folder, GGUF file or built-in name, in evaluation mode.

        Raises UsageError if nothing of that name can be had, naming what was tried.
        """
        from .classifier import read_exit_classifier
        from .loading import load_model

        if not isinstance(name, (str, Path)):
            raise UsageError(
                f"a model is named by a text or a path, not {name!r}; a model itself goes into Backbone(…)"
            )
        model, tokenizer, label = load_model(str(name), dtype)
        try:
            model = model.to(device).eval()
        except (RuntimeError, AssertionError, NotImplementedError, TypeError) as error:
            why = next(iter(str(error).splitlines()), type(error).__name__)
            raise UsageError(f"this machine has no device {device!r}: {why}") from error
        return cls(model, tokenizer, label, read_exit_classifier(str(name)))

    # -- parts ------------------------------------------------------------------------------------------------------

    @property
    def layers(self) -> nn.ModuleList:
        """The decoder layers, also while gates are on."""
        return self.body._modules[self.layers_attribute]

    @property
    def num_layers(self) -> int:
        """Number of decoder layers."""
        return len(self.layers)

    @property
    def num_cycles(self) -> int | None:
        """How often the unique layers of a looped decoder run; None if the model is not looped."""
        return num_cycles(self.config)

    @property
    def device(self) -> torch.device:
        """Where the weights are."""
        return self.lm_head.weight.device

    @property
    def dtype(self) -> torch.dtype:
        """The type the weights are kept in."""
        return self.lm_head.weight.dtype

    @property
    def compute_dtype(self) -> torch.dtype:
        """The type of activations: autocast's where it is on, else the weights'."""
        kind = self.device.type
        return torch.get_autocast_dtype(kind) if torch.is_autocast_enabled(kind) else self.dtype

    @property
    def attention(self) -> str:
        """Which attention implementation runs: `sdpa`, `eager`, …"""
        return getattr(self.config, "_attn_implementation", None) or "eager"

    @property
    def max_positions(self) -> int | None:
        """The longest sequence the model can hold, where its config says so."""
        names = ("max_position_embeddings", "n_positions")
        return next((value for n in names if (value := getattr(self.config, n, None))), None)

    @property
    def takes_positions(self) -> bool:
        """Whether positions are given token by token; BLOOM counts columns instead."""
        return bool(self._positions)

    @property
    def num_parameters(self) -> int:
        """Number of weights, tied ones counted once."""
        return sum(p.numel() for p in self.model.parameters())

    @property
    def eos_ids(self) -> tuple[int, ...]:
        """Token ids that end an output: the generation config's, else the config's; and the tokenizer's.

        The tokenizer's is the one that training puts at the end of outputs, whatever the configs say.
        """
        configs = (getattr(self.model, "generation_config", None), self.config)
        own = next((ids for source in configs if (ids := getattr(source, "eos_token_id", None)) is not None), ())
        own = own if isinstance(own, (list, tuple)) else (own,)
        trained = getattr(self.tokenizer, "eos_token_id", None)
        return tuple(dict.fromkeys(int(i) for i in (*own, trained) if i is not None))

    @property
    def pad_id(self) -> int:
        """The id that stands in outputs after a row's end; some configs name one that the model does not have."""
        sources = (self.tokenizer, getattr(self.model, "generation_config", None), self.config)
        ids = (getattr(source, "pad_token_id", None) for source in sources)
        return next((int(i) for i in ids if i is not None), (*self.eos_ids, 0)[0])

    @property
    def vocabulary(self) -> int:
        """Number of token ids the model can be fed."""
        return self.model.get_input_embeddings().num_embeddings

    @property
    def fill_id(self) -> int:
        """The id fed where a batch has no token, whose result nobody reads: the pad id if the model has it, else 0."""
        return self.pad_id if 0 <= self.pad_id < self.vocabulary else 0

    # -- running ----------------------------------------------------------------------------------------------------

    def run_body(self, input_ids: Tensor, position_ids: Tensor, cache=None) -> Tensor:
        """Embedding, gated layers and final norm: hidden states [batch, columns, width].

        To be called with gates on: they hand each layer its attention mask, so the body gets a placeholder that keeps
        it from building one of its own.
        """
        kwargs = dict.fromkeys(self._positions, position_ids)
        kwargs["attention_mask"] = self._placeholder if self._dense_mask else None
        kwargs[self._cache_argument] = cache
        return self.body(input_ids=input_ids, use_cache=cache is not None, **kwargs)[0]

    def head(self, hidden: Tensor) -> Tensor:
        """Logits [..., vocabulary] of final hidden states (after norm and projection)."""
        return self.lm_head(hidden)

    def exit_head(self, hidden: Tensor) -> Tensor:
        """Logits [..., vocabulary] of a hidden state between layers: final norm, projection, head, as the model has."""
        return self.head(self.finish(hidden))

    def finish(self, hidden: Tensor) -> Tensor:
        """Final norm and projection, where the model has them."""
        if self.norm is not None:
            hidden = self.norm(hidden)
        return hidden if self.project is None else self.project(hidden)

    def require_tokenizer(self):
        """The tokenizer; raises UsageError where there is none."""
        if self.tokenizer is None:
            raise UsageError(f"model {self.name!r} has no tokenizer; this needs one")
        return self.tokenizer

    def require_exit_classifier(self) -> Tensor:
        """The exit classifier [width + 1]; raises UsageError where the checkpoint has none."""
        if self.exit_classifier is None:
            raise UsageError(
                f"model {self.name!r} has no exit classifier; train one with the checkpoint, or use another confidence"
            )
        return self.exit_classifier

    def give_exit_classifier(self, classifier: Tensor) -> None:
        """Take a classifier [width + 1] that was trained after the model was loaded."""
        self.exit_classifier = self._checked_classifier(classifier)

    def _checked_classifier(self, classifier: Tensor | None) -> Tensor | None:
        if classifier is None:
            return None
        shape = (self.config.hidden_size + 1,)
        if tuple(classifier.shape) != shape:
            raise UsageError(f"an exit classifier has shape {list(shape)}, not {list(classifier.shape)}")
        return classifier.to(self.device, self.dtype)

    def _layers_return_tuples(self) -> bool:
        """Ask the first layer itself what it returns: transformers changed it between versions."""
        from .gating import gates

        seen: list[bool] = []

        def visit(index: int, hidden: Tensor, call) -> Tensor:
            layer, kwargs = call.args[0], call.args[1]
            seen.append(isinstance(layer(hidden, **kwargs), tuple))
            raise _Probed

        self.tuple_layers = False
        ids = torch.zeros(1, 1, dtype=torch.long, device=self.device)
        try:
            with torch.no_grad(), gates(self, visit):
                self.run_body(ids, ids)
        except _Probed:
            return seen[0]
        raise SkipbenchError(f"model {self.name!r}: the body does not call its decoder layers")


class _Probed(Exception):
    """Ends the body once its first layer was asked."""


def _first_argument(module: nn.Module, *names: str) -> str:
    known = inspect.signature(module.forward).parameters
    return next((n for n in names if n in known), names[-1])
