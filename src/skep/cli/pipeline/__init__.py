"""``skep pipeline``: the Spark jobs that come with Skep."""
