"""Two methods and a task for skipbench."""

from .methods import EveryThird, PatientExit

__all__ = ["EveryThird", "PatientExit"]
