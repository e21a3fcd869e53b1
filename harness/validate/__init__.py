"""Whether a method keeps the engine's contract, on tiny random models of every supported family."""

from .validate import Report, validate_method

__all__ = ["Report", "validate_method"]
