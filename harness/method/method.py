"""What a method is: a frozen dataclass in one file whose fields are its parameters.

A *schedule* decides from the step alone which layers run. An *early exit* decides from the hidden states. A
*speculative* method runs all layers in the end, on several tokens at once, some of them guessed. All leave the layers,
the cache and the loop to the engine, which checks what they say.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from ..errors import UsageError, unknown

if TYPE_CHECKING:
    from torch import BoolTensor, Tensor

KV_POLICIES = ("closed", "propagate", "oracle")


@dataclass(frozen=True)
class Lengths:
    """Token lengths of a task's training examples, from which schedules take their horizon.

    `prompt` and `output` are medians; `outputs` holds the output lengths themselves (EOS included).
    """

    prompt: int
    output: int
    outputs: tuple[int, ...] = ()


@dataclass(frozen=True)
class Method:
    """Base of all methods. `num_layers` is the model's number of decoder layers."""

    num_layers: int

    name: ClassVar[str] = ""
    kv_policy: ClassVar[str] = "closed"
    speed_parameters: ClassVar[tuple[str, ...]] = ()  # parameters that say how fast it is, in a target's stead

    def __post_init__(self) -> None:
        if self.num_layers < 1:
            raise UsageError(f"num_layers must be at least 1, not {self.num_layers}")

    def prompt_layers(self) -> Sequence[int]:
        """Layers the prompt runs; all of them unless a method opts out."""
        return range(self.num_layers)

    def recipe(self, horizon: int) -> dict:
        """What training must know, as JSON values; decoding-only parameters are left out.

        Methods with the same recipe share a checkpoint. `horizon` is the number of decode steps a plan must cover.
        """
        raise NotImplementedError

    @property
    def variant(self) -> str:
        """The parameters as one short string, for tables; the same in every process."""
        names = [f.name for f in dataclasses.fields(self) if f.init and f.name != "num_layers"]
        shown = {name: getattr(self, name) for name in names}
        return " ".join(f"{key}={_short(value)}" for key, value in shown.items() if value is not None)


@dataclass(frozen=True)
class LayerSchedule(Method):
    """A method whose layers depend on the decode step alone, so every row of a batch runs the same ones.

    Optional: `with_lengths(parameters, lengths)` fills in a horizon from the training lengths; `tuned_counts` (counts
    of layers) and `tuning_candidates(num_layers, target, lengths, **parameters)` let `skipbench tune` choose.
    """

    def layers(self, step: int) -> Sequence[int]:
        """Indices (0-based) of the layers that run at decode step `step`, counted from 1."""
        raise NotImplementedError(f"method {self.name!r} does not implement layers(step)")

    def plan(self, steps: int) -> list[tuple[int, ...]]:
        """The checked layers of decode steps 1..`steps`, ascending."""
        return [check_layers(self, self.layers(step), f"layers({step})") for step in range(1, steps + 1)]

    def recipe(self, horizon: int) -> dict:
        """Train under the plan itself."""
        return {
            "objective": "plan",
            "prompt": list(check_layers(self, self.prompt_layers(), "prompt_layers()")),
            "steps": [list(layers) for layers in self.plan(horizon)],
        }


@dataclass(frozen=True)
class EarlyExit(Method):
    """A method that leaves at a layer of its own choice, row by row.

    The last layer is never asked; it is simply the end. `search` names the parameter that trades speed for quality and
    its range, so that a target speed-up can be met by a search on validation examples: a larger value exits later.
    """

    kv_policy: ClassVar[str] = "propagate"
    search: ClassVar[tuple[str, float, float] | None] = None

    def should_exit(self, layer: int, state) -> BoolTensor:
        """Bool [batch]: which rows may leave after layer `layer` (0-based).

        `state.hidden`, `state.previous` are the hidden states [batch, width] after this layer and before it;
        `state.logits()` the head's logits [batch, vocabulary], computed on demand and counted; `state.step` counts
        decode steps from 1 and `state.max_steps` is their maximum. `state.exit_classifier` [width + 1] are the weights
        and bias of the checkpoint's classifier; `state.last_logits()` the last layer's, under `kv_policy = "oracle"`.
        """
        raise NotImplementedError(f"method {self.name!r} does not implement should_exit(layer, state)")

    def recipe(self, horizon: int) -> dict:
        """Train every layer as a possible exit."""
        return {"objective": "multi_exit"}


@dataclass(frozen=True)
class Speculative(Method):
    """A lossless method: tokens are guessed cheaply and checked at full depth, so the output is the greedy one.

    The engine owns guessing, checking and exact rollback, row by row; a method says how guesses come about:

    - Draft and verify, on any model: `draft_layers()` guess up to `draft_tokens` tokens, one a pass; then one pass of
      all layers over them finds the true ones. If the draft layers are the first ones, their states, keys and values
      are used on; those of any other subset are computed anew.
    - Pipelined (`pipelined = True`), on looped decoders: the first cycle guesses, and the guess follows its parent
      through the cycles, all of which are rows of one batch of the shared layers.
    """

    pipelined: ClassVar[bool] = False
    draft_tokens: ClassVar[int] = 4  # a subclass may make it a parameter

    def draft_layers(self) -> Sequence[int]:
        """Indices (0-based) of the layers that draft; a pipelined method has none."""
        raise NotImplementedError(f"method {self.name!r} does not implement draft_layers()")

    def guess(self, logits: Tensor, rows: Tensor, places: Tensor) -> Tensor:
        """Token ids [guesses] from the draft's logits [guesses, vocabulary].

        `rows` [guesses] are the rows of the batch as it was given, `places` [guesses] the places in the row's output,
        from 0, of the tokens guessed. A bad guess costs time and changes no output.
        """
        return logits.argmax(-1)

    def recipe(self, horizon: int) -> dict:
        """Train every exit that may guess: the ends of the cycles, or every layer."""
        return {"objective": "cycles" if self.pipelined else "multi_exit"}


def check_kv_policy(method: Method) -> None:
    """Raise UsageError for a policy that does not exist or means nothing for the kind of method."""
    policies = KV_POLICIES if isinstance(method, EarlyExit) else ("closed", "propagate")
    policies = ("closed",) if isinstance(method, Speculative) else policies
    if method.kv_policy not in policies:
        raise unknown(f"kv_policy of method {method.name!r}:", method.kv_policy, policies)


def check_temperature(cls: type[Method], temperature: float) -> None:
    """Raise UsageError for sampling with a method that guesses what greedy decoding says."""
    if issubclass(cls, Speculative) and temperature != 0:
        raise UsageError(
            f"method {cls.name!r} guesses what greedy decoding says, so it cannot sample; set the temperature to 0"
        )


def check_layers(method: Method, layers: Sequence[int], where: str) -> tuple[int, ...]:
    """`layers` ascending, or UsageError naming what is wrong: empty, repeated, out of range, not integers."""
    try:
        layers = list(layers)
        if any(isinstance(i, bool) for i in layers):
            raise TypeError
        indices = [operator.index(i) for i in layers]
    except TypeError:
        raise UsageError(f"method {method.name!r}: {where} must return layer indices, not {layers!r}") from None
    if not indices:
        raise UsageError(f"method {method.name!r}: {where} returned no layer; at least one must run")
    outside = [i for i in indices if not 0 <= i < method.num_layers]
    if outside:
        raise UsageError(
            f"method {method.name!r}: {where} returned layer {outside[0]}, but the model has layers 0 to "
            f"{method.num_layers - 1}"
        )
    if len(set(indices)) != len(indices):
        raise UsageError(f"method {method.name!r}: {where} returned a layer twice: {indices}")
    return tuple(sorted(indices))


def _short(value: object) -> str:
    if isinstance(value, (set, frozenset)):
        return f"{{{', '.join(sorted(map(str, value)))}}}"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
