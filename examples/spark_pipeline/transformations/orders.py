"""From the queue ``orders`` into a table, and from the table into the queue ``big-orders``.

The server is the one that ``SKEP_URL`` names, or the one on this machine.
"""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import from_json, struct, to_json


@dp.table
def orders() -> DataFrame:
    """Every order, once; a run appends those that have come since the last one."""
    messages = (
        SparkSession.active()
        .readStream.format("skep")
        .options(queue="orders", consumerGroup="pipeline-orders", startingOffsets="earliest")
        .load()
    )
    order = from_json("payload", "customer STRING, total DOUBLE").alias("order")
    return messages.select("partition", "offset", "created_at", order).select(
        "partition", "offset", "created_at", "order.customer", "order.total"
    )


dp.create_sink("big_orders", format="skep", options={"queue": "big-orders"})


@dp.append_flow(target="big_orders")
def to_big_orders() -> DataFrame:
    """Each of them exactly once."""
    big = SparkSession.active().readStream.table("orders").filter("total > 1000")
    return big.select("partition", to_json(struct("customer", "total")).alias("payload"))
