"""Methods that break the contract, each in one way. `validate` must catch every one of them."""

from __future__ import annotations

import itertools
import random
from dataclasses import dataclass, field

import torch

from harness import EarlyExit, LayerSchedule, Speculative, register_method

_calls = itertools.count()


@register_method("wrong_hole")
@dataclass(frozen=True)
class Hole(LayerSchedule):
    """Skips layer 3 at even steps and layer 0 at odd ones, as if their caches did not matter."""

    def layers(self, step):
        return [i for i in range(self.num_layers) if i != (0 if step % 2 else 3)]


@register_method("wrong_late_hole")
@dataclass(frozen=True)
class LateHole(LayerSchedule):
    """Takes a skipped layer back long after the steps that a quick look would decode."""

    def layers(self, step):
        return range(self.num_layers) if step > 40 else range(self.num_layers - 1)


@register_method("wrong_prompt_hole")
@dataclass(frozen=True)
class PromptHole(LayerSchedule):
    """Leaves layers out of the prompt that it runs afterwards."""

    def prompt_layers(self):
        return range(2)

    def layers(self, step):
        return range(self.num_layers)


@register_method("wrong_counter")
@dataclass(frozen=True)
class Counter(EarlyExit):
    """Counts its own calls in a field."""

    calls: int = 0

    def should_exit(self, layer, state):
        object.__setattr__(self, "calls", self.calls + 1)
        return torch.zeros(len(state.hidden), dtype=torch.bool)


@register_method("wrong_list_field")
@dataclass(frozen=True)
class ListField(LayerSchedule):
    """Frozen, but its list grows."""

    seen: list = field(default_factory=list)

    def layers(self, step):
        self.seen.append(step)
        return range(self.num_layers)


@register_method("wrong_batch_mates")
@dataclass(frozen=True)
class BatchMates(EarlyExit):
    """All rows leave when the mean of the batch says so."""

    def should_exit(self, layer, state):
        sure = state.hidden.mean() > 0.02
        return sure.expand(len(state.hidden))


@register_method("wrong_claim")
@dataclass(frozen=True)
class Claim(LayerSchedule):
    """Says that all layers run, and runs two."""

    def layers(self, step):
        return range(self.num_layers)

    def plan(self, steps):
        return [(0, 1)] * steps


@register_method("wrong_trace")
@dataclass(frozen=True)
class Trace(EarlyExit):
    """Writes layers into the engine's trace."""

    def should_exit(self, layer, state):
        if layer == 1:
            state.__dict__.get("_stepper", self).__dict__.get("ran", []).append(self.num_layers - 1)
        return torch.full((len(state.hidden),), layer == 1)


@register_method("wrong_twice")
@dataclass(frozen=True)
class Twice(LayerSchedule):
    """Runs a layer twice."""

    def layers(self, step):
        return [0, 1, 1, self.num_layers - 1]


@register_method("wrong_range")
@dataclass(frozen=True)
class Range(LayerSchedule):
    """Counts layers from 1."""

    def layers(self, step):
        return range(1, self.num_layers + 1)


@register_method("wrong_negative")
@dataclass(frozen=True)
class Negative(LayerSchedule):
    """Counts from the end."""

    def layers(self, step):
        return [0, -1]


@register_method("wrong_second_call")
@dataclass(frozen=True)
class SecondCall(EarlyExit):
    """Exits at another layer the next time it is asked the same."""

    def should_exit(self, layer, state):
        return torch.full((len(state.hidden),), next(_calls) % 3 == 0)


@register_method("wrong_random")
@dataclass(frozen=True)
class Random(LayerSchedule):
    """Draws its layers without a seed."""

    def layers(self, step):
        return [0, *sorted(random.sample(range(1, self.num_layers), 2))]


@register_method("wrong_in_place")
@dataclass(frozen=True)
class InPlace(EarlyExit):
    """Changes the hidden state it is shown."""

    def should_exit(self, layer, state):
        state.hidden.mul_(-2)
        return torch.full((len(state.hidden),), layer == 2)


@register_method("wrong_model_patch")
@dataclass(frozen=True)
class ModelPatch(EarlyExit):
    """Leaves a patched forward behind."""

    def should_exit(self, layer, state):
        body = state._stepper.backbone.body if hasattr(state, "_stepper") else state.backbone.body
        body.forward = body.forward
        return torch.zeros(len(state.hidden), dtype=torch.bool)


@register_method("wrong_raises")
@dataclass(frozen=True)
class Raises(LayerSchedule):
    """Fails at the third step."""

    def layers(self, step):
        return {1: [0], 2: [0]}[step]


@register_method("wrong_exit_raises")
@dataclass(frozen=True)
class ExitRaises(EarlyExit):
    """Asks the state for what it does not have."""

    def should_exit(self, layer, state):
        return state.entropy() > 1


@register_method("wrong_system_exit")
@dataclass(frozen=True)
class Quits(LayerSchedule):
    """Ends the program."""

    def layers(self, step):
        raise SystemExit(3)


@register_method("wrong_floats")
@dataclass(frozen=True)
class Floats(LayerSchedule):
    """Layers as floats."""

    def layers(self, step):
        return [0.0, self.num_layers / 2, self.num_layers - 1]


@register_method("wrong_none")
@dataclass(frozen=True)
class ReturnsNone(LayerSchedule):
    """Forgets the return."""

    def layers(self, step):
        list(range(self.num_layers))


@register_method("wrong_empty")
@dataclass(frozen=True)
class Empty(LayerSchedule):
    """Runs nothing after some steps."""

    def layers(self, step):
        return range(self.num_layers - step)


@register_method("wrong_shape")
@dataclass(frozen=True)
class Shape(EarlyExit):
    """One answer for the whole batch."""

    def should_exit(self, layer, state):
        return torch.tensor(True)


@register_method("wrong_dtype")
@dataclass(frozen=True)
class Dtype(EarlyExit):
    """A confidence instead of a decision."""

    def should_exit(self, layer, state):
        return state.hidden[:, 0]


@register_method("wrong_parameter")
@dataclass(frozen=True)
class Parameter(LayerSchedule):
    """Needs a parameter that nobody can guess."""

    depth: int

    def layers(self, step):
        return range(self.depth)


@register_method("wrong_post_init")
@dataclass(frozen=True)
class PostInit(LayerSchedule):
    """Cannot be built at all."""

    def __post_init__(self):
        raise KeyError("layers")

    def layers(self, step):
        return range(self.num_layers)


@register_method("wrong_for_target")
@dataclass(frozen=True)
class ForTarget(LayerSchedule):
    """Its search for a target divides by zero."""

    @classmethod
    def for_target(cls, num_layers, target, lengths=None):
        return cls(num_layers // 0)

    def layers(self, step):
        return range(self.num_layers)


@register_method("wrong_policy")
@dataclass(frozen=True)
class Policy(LayerSchedule):
    """A KV policy that does not exist."""

    kv_policy = "copy"

    def layers(self, step):
        return range(self.num_layers)


@register_method("wrong_class")
class NoDataclass:
    """No dataclass, and no method."""

    def layers(self, step):
        return [0]


@register_method("wrong_guess")
@dataclass(frozen=True)
class Guess(Speculative):
    """Guesses a token that the vocabulary does not have."""

    def draft_layers(self):
        return [0]

    def guess(self, logits, rows, places):
        return logits.argmax(-1) + logits.shape[1]


@register_method("wrong_draft")
@dataclass(frozen=True)
class Draft(Speculative):
    """Drafts with a layer that is not there."""

    def draft_layers(self):
        return [0, self.num_layers]


@register_method("wrong_draft_policy")
@dataclass(frozen=True)
class DraftPolicy(Speculative):
    """Lossless, yet with keys and values that are not the layers' own."""

    kv_policy = "propagate"

    def draft_layers(self):
        return [0]


@register_method("wrong_draft_memory")
@dataclass(frozen=True)
class DraftMemory(Speculative):
    """Guesses worse from call to call: the output stays, what ran does not."""

    calls: list = field(default_factory=list)

    def draft_layers(self):
        return [0]

    def guess(self, logits, rows, places):
        self.calls.append(len(rows))
        return logits.argmax(-1) if len(self.calls) < 4 else logits.argmin(-1)


@register_method("wrong_head")
@dataclass(frozen=True)
class Head(EarlyExit):
    """Reads the head where nobody counts it, which would make it look faster than it is."""

    def should_exit(self, layer, state):
        return state.logits().argmax(-1) == state.backbone.exit_head(state.previous).argmax(-1)


@register_method("wrong_recipe")
@dataclass(frozen=True)
class WrongRecipe(LayerSchedule):
    """Trains a layer that no model has, and so none."""

    def layers(self, step):
        return range(0, self.num_layers, 2)

    def recipe(self, horizon):
        return {"objective": "plan", "prompt": [0], "steps": [[99]]}


@register_method("wrong_recipe_late")
@dataclass(frozen=True)
class WrongRecipeLate(WrongRecipe):
    """The wrong one of many plans is seldom drawn."""

    def recipe(self, horizon):
        right = {"prompt": [0], "steps": [[0]]}
        return {"objective": "plans", "plans": [right] * 50 + [{"prompt": [0], "steps": [[99]]}]}


@register_method("wrong_recipe_raises")
@dataclass(frozen=True)
class RecipeRaises(WrongRecipe):
    """Decodes, but has nothing to train."""

    def recipe(self, horizon):
        raise RuntimeError("nothing to train")


@register_method("wrong_recipe_range")
@dataclass(frozen=True)
class RecipeRange(WrongRecipe):
    """No JSON, so no checkpoint could be kept under it."""

    def recipe(self, horizon):
        return {"objective": "plan", "prompt": range(self.num_layers), "steps": [range(self.num_layers)]}


@register_method("wrong_late_mates")
@dataclass(frozen=True)
class LateMates(EarlyExit):
    """Looks at its batch mates only when the output is long."""

    def should_exit(self, layer, state):
        if state.step > 8:
            return (state.hidden.mean() > 0).expand(len(state.hidden))
        return state.hidden[:, 0] > 0


@register_method("wrong_on_five_layers")
@dataclass(frozen=True)
class OnFiveLayers(LayerSchedule):
    """A hole on models of five layers only."""

    def layers(self, step):
        return range(1 if self.num_layers == 5 and step == 2 else 0, self.num_layers)


@register_method("wrong_signature")
@dataclass(frozen=True)
class Signature(LayerSchedule):
    """Forgets the step."""

    def layers(self):
        return [0]


@register_method("wrong_exit_signature")
@dataclass(frozen=True)
class ExitSignature(EarlyExit):
    """Forgets the layer."""

    def should_exit(self, state):
        return state.hidden[:, 0] > 0


@register_method("wrong_target_signature")
@dataclass(frozen=True)
class TargetSignature(LayerSchedule):
    """Forgets the target."""

    @classmethod
    def for_target(cls, num_layers):
        return cls(num_layers)

    def layers(self, step):
        return range(self.num_layers)
