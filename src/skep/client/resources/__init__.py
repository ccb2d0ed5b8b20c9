"""Administration of a server: the same methods as in the broker, one resource per noun."""
