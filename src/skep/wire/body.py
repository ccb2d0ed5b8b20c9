"""The base of bodies, and their encoder."""

from typing import Annotated, Any

import msgspec


class Body(
    msgspec.Struct, rename="camel", frozen=True, kw_only=True, gc=False, omit_defaults=False
):
    """A body with snake case names here and camel case names on the wire. Unknown fields are
    ignored, because clients of other versions send some."""


MAX_ELEMENTS = 10_000
LIST = msgspec.Meta(max_length=MAX_ELEMENTS)
"""The maximum length of a list in a body: a large body is decoded element by element."""

Id = Annotated[str, msgspec.Meta(extra_json_schema={"format": "uuid"})]
"""A UUID that is only written: a string costs a tenth of the object."""

encode = msgspec.json.Encoder().encode


def raw(value: Any) -> msgspec.Raw:
    """A value as JSON."""
    return msgspec.Raw(encode(value))
