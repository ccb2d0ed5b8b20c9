"""Counts what commits did. Decides nothing."""
