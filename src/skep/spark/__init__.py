"""Spark over queues: a session that is ready, and the source that ``pyspark_skep`` is.

Nothing here imports pyspark before it is used.
"""

from skep.spark.session import session

__all__ = ["session"]
