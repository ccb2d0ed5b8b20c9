"""The Spark session of a pipeline."""

import logging
import sys
from typing import TYPE_CHECKING

from skep.cli import output
from skep.cli.pipeline.options import Place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def open_session(place: Place, pipeline: str) -> "SparkSession":
    from skep.spark.session import remote_session, session

    if sys.stderr.isatty():
        output.note("starting Spark")
    # Spark logs errors that are printed here anyway.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    if place.remote:
        spark = remote_session(place.remote)
    else:
        spark = session(f"skep {pipeline}", place.master)
        if not place.master.startswith("local"):
            import pyspark_skep

            # The executors may not have the package installed.
            pyspark_skep.register(spark)
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    return spark
