"""Rows are staged unseen and published once per application and version."""
