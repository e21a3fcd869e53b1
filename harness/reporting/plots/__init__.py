"""Every picture of a report."""
