"""For every test: no network, and no more threads than a small model can use."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"  # before any library reads it
os.environ["OMP_NUM_THREADS"] = "1"  # of the processes that tests start, too: a run notes its threads
if "SKIPBENCH_DATA" in os.environ:  # only tests of real data look there; see tests/real_data.py
    os.environ["SKIPBENCH_TEST_DATA"] = os.environ.pop("SKIPBENCH_DATA")


def pytest_configure(config):
    import torch

    torch.set_num_threads(1)


LONGEST = ("readme", "validate", "run", "smoke", "tuning_forms", "training_identity", "tuning_commands", "notebooks")


def pytest_collection_modifyitems(items):
    """The files that take longest first, so that no process is left alone with one of them in the end."""
    rank = {f"test_{name}": place for place, name in enumerate(LONGEST)}
    items.sort(key=lambda item: rank.get(item.path.stem, len(rank)))
