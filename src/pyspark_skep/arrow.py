"""pyarrow, or None where it is not installed.

Spark imports every package whose name begins with ``pyspark_`` when it looks for data sources, and
finds none of them if one import fails. So this package can be imported without pyarrow, and
``DefaultSource`` reports that it is missing. Annotations that name pyarrow's types are therefore
not evaluated: their modules have ``from __future__ import annotations``.
"""

try:
    import pyarrow as pa
except Exception:  # a broken installation raises more than ImportError
    pa = None

__all__ = ["pa"]
