"""How bodies are written and read."""

from typing import Annotated, Any

import msgspec


class Body(
    msgspec.Struct, rename="camel", frozen=True, kw_only=True, gc=False, omit_defaults=False
):
    """A body in our words here, in camel case on the wire. Fields we do not know are ignored,
    because clients of other versions send some."""


MAX_ELEMENTS = 10_000
LIST = msgspec.Meta(max_length=MAX_ELEMENTS)
"""The limit of a list in a body: a large body is decoded element by element up to here."""

Id = Annotated[str, msgspec.Meta(extra_json_schema={"format": "uuid"})]
"""A UUID that is only written: a text costs a tenth of the object."""

encode = msgspec.json.Encoder().encode


def raw(value: Any) -> msgspec.Raw:
    """A value as the JSON it is on the wire."""
    return msgspec.Raw(encode(value))
