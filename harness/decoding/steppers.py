"""What each layer does in one pass of the body: run, skip, or write keys and values only.

A stepper is the `visit` of the gates. It enforces the method's KV policy through the cache and notes which layers ran.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ..backbone import KeysWritten, PlanCache
from ..backbone.fused import fused_body
from ..errors import UsageError
from ..method import EarlyExit, LayerSchedule, Method, check_layers
from .states import ExitState


class Stepper:
    """Base: the prompt pass, and the three things a layer can do."""

    def __init__(self, backbone, method: Method, cache: PlanCache) -> None:
        self.backbone, self.method, self.cache = backbone, method, cache
        self.prompt_layers = check_layers(method, method.prompt_layers(), "prompt_layers()")
        self.mask: Tensor | None = None  # additive attention mask of the pass, None where all keys are visible
        self._fused = fused_body(backbone)
        self.ran: list[int] = []
        self.head_checks = 0
        self._decide = self._prompt

    def begin_prompt(self, mask: Tensor) -> None:
        """The next pass is the prefill."""
        self.mask, self.ran, self.head_checks = mask, [], 0
        self._decide = self._prompt
        self._in_prompt = frozenset(self.prompt_layers)

    def begin_step(self, step: int, mask: Tensor | None) -> None:
        """The next pass is decode step `step`."""
        self.mask, self.ran, self.head_checks = mask, [], 0
        self._decide = self.decide
        self.start(step)

    def run_step(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Final hidden states [rows, columns, width] of a decode step's tokens at positions, both [rows, columns]."""
        if self._fused is not None:
            return self._fused.run(tokens, positions, self.cache, self.visit)
        return self.backbone.run_body(tokens, positions, self.cache)

    def visit(self, index: int, hidden: Tensor, call) -> Tensor:
        """The gate's question: the hidden state after layer `index`."""
        return self._decide(index, hidden, call)

    @property
    def needed(self) -> int | Tensor:
        """Layers each row needed in the pass: a number, or a tensor [rows]."""
        return len(self.ran)

    def start(self, step: int) -> None:
        raise NotImplementedError

    def decide(self, index: int, hidden: Tensor, call) -> Tensor:
        raise NotImplementedError

    def _prompt(self, index: int, hidden: Tensor, call) -> Tensor:
        if index in self._in_prompt:
            return self.run(index, hidden, call)
        return self.leave_out(index, hidden, call)

    def run(self, index: int, hidden: Tensor, call) -> Tensor:
        """RUN the layer."""
        self.cache.check_history(index)
        hidden = call(hidden, attention_mask=self.mask)
        self.ran.append(index)
        return hidden

    def leave_out(self, index: int, hidden: Tensor, call) -> Tensor:
        """Do not run the layer: SKIP it under a closed plan, else write the unchanged state's keys and values."""
        if self.method.kv_policy != "closed":
            self.write_keys(index, hidden, call)
        return hidden

    def write_keys(self, index: int, hidden: Tensor, call) -> None:
        """KV_ONLY: the layer's own norm and projections of `hidden`, and nothing after them."""
        self.cache.check_history(index)
        self.cache.keys_only = True
        try:
            call(hidden, attention_mask=self.mask)
        except KeysWritten:
            pass
        finally:
            self.cache.keys_only = False


class ScheduleStepper(Stepper):
    """Layers fixed by the step."""

    method: LayerSchedule

    def __init__(self, backbone, method: LayerSchedule, cache: PlanCache, plan: list[tuple[int, ...]]) -> None:
        super().__init__(backbone, method, cache)
        self._plan = [frozenset(layers) for layers in plan]

    def start(self, step: int) -> None:
        self._active = self._plan[step - 1]

    def decide(self, index: int, hidden: Tensor, call) -> Tensor:
        if index in self._active:
            return self.run(index, hidden, call)
        return self.leave_out(index, hidden, call)


class _CountedState(ExitState):
    """Counts reads of the head: one a layer, however often its logits are asked for."""

    def __init__(self, stepper: ExitStepper, hidden: Tensor, previous: Tensor, last: Tensor | None) -> None:
        super().__init__(stepper.backbone, hidden, previous, stepper.step, stepper.max_steps, last)
        self._stepper, self._logits = stepper, None

    def logits(self) -> Tensor:
        if self._logits is None:
            self._logits = super().logits()
            self._stepper.head_checks += 1
        return self._logits


class ExitStepper(Stepper):
    """Layers decided row by row from the hidden states.

    A layer runs while any row still needs it; rows that have left keep their hidden state. The running layer writes
    exactly that unchanged state's keys and values for them, which is the `propagate` policy; once all rows have left,
    deeper layers write keys and values only. Under `oracle` every layer runs on the true states, which fill the cache;
    the rule is asked in hindsight, and only the output comes from the exit.
    """

    method: EarlyExit

    def __init__(self, backbone, method: EarlyExit, cache: PlanCache, max_steps: int) -> None:
        super().__init__(backbone, method, cache)
        self.max_steps = max_steps
        self._true_states = method.kv_policy == "oracle"

    def start(self, step: int) -> None:
        rows = len(self.cache.lengths)
        self.step = step
        self._left = torch.zeros(rows, dtype=torch.bool, device=self.backbone.device)
        self._needed = torch.full((rows,), self.backbone.num_layers, device=self.backbone.device)
        self._some_left = self._all_left = False
        self._states: list[tuple[Tensor, Tensor]] = []  # before and after each layer, kept under `oracle`

    @property
    def needed(self) -> Tensor:
        return self._needed

    def decide(self, index: int, hidden: Tensor, call) -> Tensor:
        if self._all_left and not self._true_states:
            self.leave_out(index, hidden, call)
            return hidden
        out = self.run(index, hidden, call)
        last = index == self.backbone.num_layers - 1
        if self._true_states:
            self._states.append((hidden, out))
            return self._exit_in_hindsight() if last else out
        if self._some_left:
            out = torch.where(self._left[:, None, None], hidden, out)
        if not last:
            self._ask(index, out, hidden)
        return out

    def _exit_in_hindsight(self) -> Tensor:
        """Hidden states [batch, 1, width] of the exits; every layer's true states are known.

        The rule gets copies: this policy is not timed, and what a rule writes into them must not become an output.
        """
        exits = last = self._states[-1][1]
        for index, (previous, out) in enumerate(self._states[:-1]):
            if self._all_left:
                break
            before = self._left
            self._ask(index, out.clone(), previous.clone(), last[:, -1].clone())
            exits = torch.where((self._left & ~before)[:, None, None], out, exits)
        return exits

    def _ask(self, index: int, out: Tensor, previous: Tensor, last: Tensor | None = None) -> None:
        state = _CountedState(self, out[:, -1], previous[:, -1], last)
        leaving = self.method.should_exit(index, state)
        if not isinstance(leaving, Tensor) or leaving.dtype != torch.bool or leaving.shape != self._left.shape:
            raise UsageError(
                f"method {self.method.name!r}: should_exit must return a bool tensor of shape "
                f"{list(self._left.shape)}, not {_describe(leaving)}"
            )
        if not bool(leaving.any()):  # most often: nothing to note down
            return
        leaving = leaving & ~self._left
        self._needed = self._needed.masked_fill(leaving, index + 1)
        self._left = self._left | leaving
        self._some_left = True
        self._all_left = bool(self._left.all())


def _describe(value: object) -> str:
    return f"{value.dtype} {list(value.shape)}" if isinstance(value, Tensor) else repr(value)
