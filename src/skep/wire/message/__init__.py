"""Bodies of requests that move or show messages."""
