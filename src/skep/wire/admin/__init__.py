"""Bodies of requests that change queues, groups, retention, runs and maintenance."""
