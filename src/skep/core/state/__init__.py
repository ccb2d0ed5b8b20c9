"""What this process keeps in memory: a mirror of the store."""
