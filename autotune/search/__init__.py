"""Searching tunables with Optuna: everything that knows Optuna is in here."""
