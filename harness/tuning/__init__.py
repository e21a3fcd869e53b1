"""Choosing what a method leaves open, on validation examples only: thresholds, schedules, and diagnosis by position."""
