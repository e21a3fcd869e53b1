"""Choosing what a method leaves open, on validation examples only: thresholds, schedules, and diagnosis by position."""

from .calibrate import Calibration, calibrate

__all__ = ["Calibration", "calibrate"]
