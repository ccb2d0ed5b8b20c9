"""Evaluates changes against a view of what is stored. Shared by all stores; writes nothing."""
