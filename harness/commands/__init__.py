"""What the commands beside `run` do: list, tune, calibrate, diagnose."""
