"""For every test: no network, and no more threads than a small model can use."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"  # before any library reads it
os.environ["OMP_NUM_THREADS"] = "1"  # of the processes that tests start, too: a run notes its threads
if "SKIPBENCH_DATA" in os.environ:  # only tests of real data look there; see tests/real_data.py
    os.environ["SKIPBENCH_TEST_DATA"] = os.environ.pop("SKIPBENCH_DATA")


def pytest_configure(config):
    import torch

    torch.set_num_threads(1)
