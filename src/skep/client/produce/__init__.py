"""Producing: many drafts in few requests, in order within a partition."""
