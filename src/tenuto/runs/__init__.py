"""Runs: one driver, the supervisor that owns it, the log it writes and the output its readers see."""
