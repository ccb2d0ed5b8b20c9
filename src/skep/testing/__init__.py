"""For tests, ours and those of users: what makes a queue predictable."""
