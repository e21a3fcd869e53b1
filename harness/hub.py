"""Whether the Hugging Face hub can be reached now, found out within seconds rather than after minutes of retries."""

from __future__ import annotations

import os
import threading
from functools import lru_cache

PROBE_SECONDS = 3.0
_YES = {"1", "ON", "YES", "TRUE"}


def hub_answers() -> bool:
    """Whether the hub answers. Takes at most PROBE_SECONDS, once a process and address.

    HF_HUB_OFFLINE and HF_DATASETS_OFFLINE mean no, without trying.
    """
    if any(os.environ.get(name, "").upper() in _YES for name in ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE")):
        return False
    return _probe(os.environ.get("HF_ENDPOINT", "https://huggingface.co"))


@lru_cache(maxsize=4)
def _probe(endpoint: str) -> bool:
    """One request, in a thread of its own because a name server can hang for longer than any socket time-out."""
    import urllib.request

    reached = threading.Event()

    def ask() -> None:
        try:
            urllib.request.urlopen(f"{endpoint}/api/datasets?limit=1", timeout=PROBE_SECONDS).close()
            reached.set()
        except Exception:  # whatever it is, the hub cannot be used
            return

    thread = threading.Thread(target=ask, daemon=True)
    thread.start()
    thread.join(PROBE_SECONDS)
    return reached.is_set()
