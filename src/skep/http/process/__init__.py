"""This server process, not the queue: its identity, its resource usage, its memory."""
