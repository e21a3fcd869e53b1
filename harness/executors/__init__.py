"""Running the jobs of a suite, in this process or on a Ray cluster."""

from .executors import RESULTS, is_done, prepare, results_folder, run_suite

__all__ = ["RESULTS", "is_done", "prepare", "results_folder", "run_suite"]
