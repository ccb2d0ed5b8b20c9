"""``skep pipeline``: the jobs that come with Skep, on Spark."""
