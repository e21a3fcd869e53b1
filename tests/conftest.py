"""For every test: no network, and no more threads than a small model can use."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"  # before any library reads it
os.environ.pop("SKIPBENCH_DATA", None)  # tests of real data name their folder themselves


def pytest_configure(config):
    import torch

    torch.set_num_threads(1)
