"""Every table of a report, the published figures among them."""
