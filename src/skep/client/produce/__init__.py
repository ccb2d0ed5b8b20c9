"""Producing: drafts are sent in batches, in order within a partition."""
