"""The papers' claims as data: what is compared, in which direction, by which margin."""

from __future__ import annotations

import math
from dataclasses import dataclass

SKIPDECODE, UNIFIED, CALM = "SkipDecode, arXiv 2307.02628", "Unified, arXiv 2404.06954", "CALM, arXiv 2207.07061"
SPEED, ADASKIP = "SPEED, arXiv 2310.12072", "AdaSkip, arXiv 2501.02336"
SUMMARIES = ("reddit_tldr", "cnn_dm")


@dataclass(frozen=True)
class Claim:
    """What is compared, in which direction, by which margin.

    `kind` names a comparison of comparisons.py; `margin` is what the difference must exceed, as a share of `full`
    (quality) or of the right side (speed, memory). `tasks` without variants; none means every task.
    """

    id: str
    text: str
    source: str
    kind: str
    left: str
    right: str = "full"
    tasks: tuple[str, ...] = ()
    margin: float = 0.0
    runs: int = 1  # random choices of the right side, which is their mean: a control needs several
    targets: tuple[float, float] = (2, 6)  # of `keeps`: 2x to 5x, and 6x where whole layers cannot meet 5x
    checkpoint: str = "own"  # of both sides and of `full`
    form: tuple[tuple[str, object], ...] = ()  # parameters of the left side: the claim is about no other form of it


CLAIMS = (
    Claim("skipdecode-keeps-e2e", "SkipDecode loses at most 5 % of quality on E2E, 2x to 5x", SKIPDECODE, "keeps",
          "skipdecode", tasks=("e2e",), margin=-0.05),
    Claim("skipdecode-carries-over", "Settings found on E2E carry over: at most 5 % lost on other tasks", SKIPDECODE,
          "carries_over", "skipdecode", tasks=(*SUMMARIES, "translation"), margin=-0.05),
    Claim("skipdecode-summaries-lose-more", "SkipDecode loses more on summaries than on E2E", SKIPDECODE, "loses_more",
          "skipdecode", tasks=SUMMARIES),
    Claim("skipdecode-beats-multi_layer", "SkipDecode beats a fixed exit at equal layers", SKIPDECODE, "beats",
          "skipdecode", "multi_layer", ("e2e", "reddit_tldr"), 0.01),
    Claim("skipdecode-beats-calm", "SkipDecode beats CALM-DEC at equal layers", SKIPDECODE, "beats", "skipdecode",
          "calm", ("e2e", "reddit_tldr"), 0.01),
    Claim("skipdecode-horizon", "SkipDecode's horizon changes its speed by at most a tenth", SKIPDECODE, "slope_only",
          "skipdecode", margin=-0.1),
    Claim("skipdecode-any-batch", "SkipDecode keeps 90 % of its batch-1 speed-up at the largest batch", SKIPDECODE,
          "any_batch", "skipdecode", margin=-0.1),
    Claim("skipdecode-less-kv", "SkipDecode holds less KV memory than full", SKIPDECODE, "less_kv", "skipdecode"),
    Claim("calm-fades", "CALM's speed-up fades with the batch: a tenth lost at the largest", SKIPDECODE, "fades",
          "calm", margin=0.1),
    Claim("unified-beats-skipdecode", "Unified beats SkipDecode at equal speed", UNIFIED, "beats", "unified",
          "skipdecode", ("translation", "cnn_dm"), 0.01),
    Claim("unified-beats-calm", "Unified beats dynamic early exit at equal speed", UNIFIED, "beats", "unified", "calm",
          ("translation", "cnn_dm"), 0.01),
    Claim("skipdecode-beats-calm-translation", "SkipDecode beats dynamic early exit at equal speed", UNIFIED, "beats",
          "skipdecode", "calm", ("translation",), 0.01),
    Claim("unified-closer-skipdecode", "Unified's clock is closer to the target than SkipDecode's", UNIFIED, "closer",
          "unified", "skipdecode"),
    Claim("unified-closer-calm", "Unified's clock is closer to the target than early exit's", UNIFIED, "closer",
          "unified", "calm"),
    Claim("unified-steadier", "Unified's speed varies less from sample to sample than early exit's", UNIFIED,
          "steadier", "unified", "calm"),
    Claim("calm-softmax-keeps", "CALM by softmax keeps 95 % of quality at its target speed-ups", CALM, "keeps", "calm",
          tasks=("cnn_dm", "translation"), margin=-0.05, targets=(1, math.inf), form=(("confidence", "softmax"),)),
    *(Claim(f"skipdecode-untuned-beats-{rival}", f"Without fine-tuning, a quarter of the layers skipped, SkipDecode's "
            f"ramp beats {name}", ADASKIP, "leads_untuned", "skipdecode", rival, margin=0.01, checkpoint="base",
            form=(("schedule", "ramp"),)) for rival, name in (("calm", "early exit"), ("unified", "Unified"))),
    Claim("skipdecode-beats-random", "SkipDecode beats random layers at equal layers", "control", "beats",
          "skipdecode", "random_skip", margin=0.01, runs=5),
    Claim("unified-beats-random", "Unified beats random layers at equal layers", "control", "beats", "unified",
          "random_skip", margin=0.01, runs=5),
    Claim("speed-latency", "SPEED takes 30 % less time a token than the same decoder run sequentially", SPEED, "faster",
          "speed", margin=0.3),
    Claim("speed-depth", "SPEED's deeper decoders take at most half more time a token than one cycle", SPEED, "deeper",
          "speed", margin=-0.5),
)  # fmt: skip
