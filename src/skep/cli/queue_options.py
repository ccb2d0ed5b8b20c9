"""The options of a queue as options of a command."""

import inspect
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
import typer

from skep.model.queue import QueueOptions

_NOTES = {
    "encryption_enabled": "Encrypt payloads. Error texts, trace data and names stay in plaintext. ",
}


def with_options(command: Any) -> Any:
    """Give a command an option for each of a queue's options."""
    signature = inspect.signature(command)
    fixed = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
    generated = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[
                type(field.default) | None,
                typer.Option(
                    help=f"{_NOTES.get(field.name, '')}{field.default}, unless you say so.",
                    show_default=False,
                ),
            ],
        )
        for field in msgspec.structs.fields(QueueOptions)
    ]
    command.__signature__ = signature.replace(parameters=[*fixed, *generated])
    command.__annotations__ |= {each.name: each.annotation for each in generated}
    return command


def given(options: Mapping[str, Any]) -> dict[str, Any]:
    """Those that somebody has given."""
    return {name: value for name, value in options.items() if value is not None}
