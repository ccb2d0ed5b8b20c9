"""The only access to the log of the store. Every write goes through the committer."""
