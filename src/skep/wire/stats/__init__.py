"""Statistics, in the shapes of the Queen API."""
