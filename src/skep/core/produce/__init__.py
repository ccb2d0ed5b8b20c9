"""Drafts become appends."""
