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
    # It says in its own way what is said here once more.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    if place.remote:
        found = remote_session(place.remote)
    else:
        found = session(f"skep {pipeline}", place.master)
        if not place.master.startswith("local"):
            import pyspark_skep

            # The Python of its executors may not have the source.
            pyspark_skep.register(found)
    found.conf.set("spark.sql.session.timeZone", "UTC")
    return found
