"""The options of a queue as command-line options."""

import inspect
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec
import typer

from skep.model.queue import QueueOptions

_EFFECTS = {
    "lease_time": ("Time for which popped messages are leased.", "s"),
    "retry_limit": ("Retries of a failed batch before it is dead-lettered.", ""),
    "retry_delay": ("Delay before the first retry; it doubles each time.", "ms"),
    "priority": ("Pops by namespace or task serve higher priorities first.", ""),
    "max_size": ("Maximum backlog in messages; 0 is unlimited.", ""),
    "ttl": ("Stored for Queen clients; no effect.", "s"),
    "dead_letter_queue": ("Stored for Queen clients; no effect.", ""),
    "dlq_after_max_retries": ("Stored for Queen clients; no effect.", ""),
    "delayed_processing": ("Time before a pushed message can be popped.", "s"),
    "window_buffer": ("Hold a partition until its newest message is this old.", "s"),
    "max_wait_time_seconds": ("Dead-letter messages that wait longer; 0 is never.", "s"),
    "retention_enabled": ("Apply the two retention times.", ""),
    "retention_seconds": ("Delete messages after this time, consumed or not; 0 is never.", "s"),
    "completed_retention_seconds": (
        "Delete messages after this time if all groups have consumed them; 0 is never.",
        "s",
    ),
    "encryption_enabled": (
        "Encrypt payloads. Error texts, trace data and names stay in plaintext.",
        "",
    ),
}
"""The effect and the unit of each option."""


def _help(field: msgspec.structs.FieldInfo) -> str:
    effect, unit = _EFFECTS[field.name]
    if isinstance(field.default, bool):
        default = "on" if field.default else "off"
    else:
        default = f"{field.default} {unit}".rstrip()
    return f"{effect} Default: {default}."


def with_options(command: Any) -> Any:
    """Add a command-line option for each option of a queue; None if it is not given."""
    signature = inspect.signature(command)
    parameters = signature.parameters.values()
    fixed = [parameter for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD]
    generated = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=None,
            annotation=Annotated[
                type(field.default) | None,
                typer.Option(help=_help(field), show_default=False),
            ],
        )
        for field in msgspec.structs.fields(QueueOptions)
    ]
    command.__signature__ = signature.replace(parameters=[*fixed, *generated])
    command.__annotations__ |= {option.name: option.annotation for option in generated}
    return command


def given(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that were given."""
    return {name: value for name, value in options.items() if value is not None}
