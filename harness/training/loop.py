"""The training loop: resumable, without a host sync a step, and it stops at the first loss that is no number."""

from __future__ import annotations

import math
import os
import pickle
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import torch

from ..backbone import Backbone
from ..errors import SkipbenchError, UsageError
from .batches import Pair, batch_plan, collate
from .objectives import make_loss
from .recipe import Recipe

LOOK_EVERY = 25  # steps between looks at the loss; each look is a host sync
SAVE_EVERY_S = 60.0
STRANDS = 4  # outputs of one prompt in a row: more save little, and make a batch's examples more alike

# progress(step, steps, loss, tokens_per_second)
Progress = Callable[[int, int, float, float], None]


@dataclass(frozen=True)
class Trained:
    """What a training run used: output and padded tokens, seconds, and the mean loss of its last steps."""

    steps: int
    output_tokens: int
    padded_tokens: int
    seconds: float
    loss: float
    precision: str


def train(
    backbone: Backbone,
    pairs: Sequence[Pair],
    objective: dict,
    recipe: Recipe,
    seed: int,
    state_file: Path | None = None,
    progress: Progress | None = None,
) -> Trained:
    """Train the model in place. `state_file` keeps what is needed to go on after an interruption.

    Raises SkipbenchError when the loss stops being a number; the model then holds the last good weights, and the state
    file is as it was last saved. Raises UsageError for a state file that cannot be read.
    """
    model = backbone.model
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=recipe.learning_rate, weight_decay=recipe.weight_decay, betas=(0.9, 0.98), fused=True
    )
    loss_of = make_loss(backbone, objective, seed)
    strands = STRANDS if backbone.takes_positions else 1
    plan = batch_plan(pairs, recipe.batch_size, recipe.steps, seed, strands)
    meter = _Meter(recipe.steps, progress)
    first = _resume(state_file, model, optimizer, meter)
    guard = _LastGood(model, optimizer, state_file, meter, first)
    model.train()
    try:
        for step in range(first, recipe.steps):
            batch = collate([pairs[i] for i in plan[step]], backbone.fill_id, strands).to(backbone.device)
            torch.manual_seed(seed * 1_000_003 + step)  # dropout, where a model has it, the same after a resume
            _train_step(model, optimizer, loss_of, batch, recipe, step, meter)
            if (step + 1) % LOOK_EVERY == 0 or step + 1 == recipe.steps:
                guard.look(step + 1)
    finally:
        model.eval()
    return meter.result(precision_name(backbone.device))


def _train_step(model, optimizer, loss_of, batch, recipe: Recipe, step: int, meter: _Meter) -> None:
    for group in optimizer.param_groups:
        group["lr"] = recipe.rate(step)
    with autocast(batch.input_ids.device):
        loss = loss_of(batch, step)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.clip_norm)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    meter.add(loss.detach(), len(batch.targets), batch.input_ids.numel())


def autocast(device: torch.device):
    """bf16 where the device computes in it natively, else nothing."""
    return torch.autocast(device.type, dtype=torch.bfloat16) if has_bf16(device) else nullcontext()


def precision_name(device: torch.device) -> str:
    """How a training run on this device computes."""
    return "bf16 autocast" if has_bf16(device) else "float32"


def has_bf16(device: torch.device) -> bool:
    """Whether bf16 products are native there; emulated ones are slower than float32."""
    if device.type == "cuda":
        return torch.cuda.is_bf16_supported()
    if device.type != "cpu":
        return False
    checks = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    return any(getattr(torch.cpu, name, lambda: False)() for name in checks)


class _Meter:
    """Loss and tokens since the last look, summed on the device."""

    def __init__(self, steps: int, progress: Progress | None) -> None:
        self.steps, self.progress = steps, progress
        self.output_tokens = self.padded_tokens = 0
        self.seconds, self.loss = 0.0, math.nan
        self._sum, self._count, self._tokens = None, 0, 0
        self._since = time.perf_counter()

    def add(self, loss: torch.Tensor, output_tokens: int, padded_tokens: int) -> None:
        self._sum = loss if self._sum is None else self._sum + loss
        self._count += 1
        self._tokens += padded_tokens
        self.output_tokens += output_tokens
        self.padded_tokens += padded_tokens

    def look(self, step: int) -> float:
        """Mean loss since the last look, and a word to whoever watches."""
        self.loss = float(self._sum) / self._count
        now = time.perf_counter()
        elapsed, self._since = now - self._since, now
        self.seconds += elapsed
        if self.progress is not None:
            self.progress(step, self.steps, self.loss, self._tokens / max(elapsed, 1e-9))
        self._sum, self._count, self._tokens = None, 0, 0
        return self.loss

    def state(self) -> dict:
        names = ("output_tokens", "padded_tokens", "seconds", "loss")
        return {name: getattr(self, name) for name in names}

    def result(self, precision: str) -> Trained:
        return Trained(self.steps, self.output_tokens, self.padded_tokens, self.seconds, self.loss, precision)


class _LastGood:
    """Keeps the last weights whose loss was a number, in memory, and now and then the whole state on disk."""

    def __init__(self, model, optimizer, state_file: Path | None, meter: _Meter, step: int) -> None:
        self.model, self.optimizer, self.file, self.meter = model, optimizer, state_file, meter
        self.step, self.weights = step, _copy(model)
        self._saved = time.perf_counter()

    def look(self, step: int) -> None:
        if not math.isfinite(self.meter.look(step)) or not _all_finite(self.model):
            # Not saved: optimizer and meter are past these weights, and their moments may be no numbers either.
            self.model.load_state_dict(self.weights)
            raise SkipbenchError(
                f"the training loss became {self.meter.loss} between steps {self.step} and {step}; the model has the "
                f"weights of step {self.step} again. Lower the learning rate"
            )
        self.step, self.weights = step, _copy(self.model)
        if time.perf_counter() - self._saved > SAVE_EVERY_S:
            self._save(step)

    def _save(self, step: int) -> None:
        if self.file is None:
            return
        self._saved = time.perf_counter()
        state = {"model": self.weights, "optimizer": self.optimizer.state_dict(), "step": step}
        part = self.file.with_name(f"{self.file.name}.part-{os.getpid()}")  # another process may train the same
        part.parent.mkdir(parents=True, exist_ok=True)
        torch.save({**state, "meter": self.meter.state()}, part)
        part.replace(self.file)


def _copy(model) -> dict:
    return {name: value.detach().clone() for name, value in model.state_dict().items()}


def _all_finite(model) -> bool:
    return bool(torch.stack([p.detach().isfinite().all() for p in model.parameters()]).all())


def _resume(state_file: Path | None, model, optimizer, meter: _Meter) -> int:
    """Load the state an interrupted run left; the step to go on from."""
    if state_file is None or not state_file.is_file():
        return 0
    try:
        state = torch.load(state_file, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        for name, value in state["meter"].items():
            setattr(meter, name, value)
        return state["step"]
    except (RuntimeError, pickle.UnpicklingError, EOFError, KeyError, TypeError, ValueError) as error:
        raise UsageError(f"training state {state_file} is damaged; delete it, and training starts anew") from error
