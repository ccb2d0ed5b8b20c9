"""Consuming: polling, lease renewal, settlement, handlers."""
