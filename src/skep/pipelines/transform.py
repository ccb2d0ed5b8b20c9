"""``transform``: from queues to a queue or to files, by a statement in SQL or a function."""

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from pyspark import cloudpickle

from skep.errors import Invalid

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Frames: TypeAlias = "Mapping[str, DataFrame]"
Step: TypeAlias = "Callable[..., DataFrame]"

INFER = "infer"


def by_sql(spark: "SparkSession", statement: str, frames: Frames) -> "DataFrame":
    """The result of a statement in which each queue is a view with its name."""
    for name, frame in frames.items():
        frame.createOrReplaceTempView(f"`{name.replace('`', '``')}`")
    return spark.sql(statement)


def load_step(place: str) -> Step:
    """The function that ``module:function`` names; modules are looked for here, too."""
    name, _, attribute = place.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = import_module(name)
        found: Step = getattr(module, attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise Invalid("function", f"must be module:function; {place!r}: {error}") from None
    # Workers do not look here, and those on other machines could not.
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    return found
