"""Errors of commands: one line on stderr and an exit code."""

import sys
from typing import Any

import typer
from typer.core import TyperGroup

from skep.errors import (
    Forbidden,
    NotFound,
    OutcomeUnknown,
    SkepError,
    Unauthenticated,
    Unavailable,
)

FAILED = 1
UNAVAILABLE = 3
NOTHING_FOUND = 4
OUTCOME_UNKNOWN = 5

EXIT_CODES = {
    0: "success",
    FAILED: "rejected or failed",
    2: "usage error",
    UNAVAILABLE: "the server cannot be reached or is overloaded; nothing was written",
    NOTHING_FOUND: "not found, or no message",
    OUTCOME_UNKNOWN: "the response was lost: the request may have been applied",
}


_CODES: dict[type[SkepError], int] = {
    Unavailable: UNAVAILABLE,
    NotFound: NOTHING_FOUND,
    OutcomeUnknown: OUTCOME_UNKNOWN,
}


class CliGroup(TyperGroup):
    """A group of commands that prints a ``SkepError`` as one line and sets the exit code."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except SkepError as error:
            print_error(f"{error}{_advice(error)}")
            raise typer.Exit(code_of(error)) from None


def code_of(error: SkepError) -> int:
    """Return the exit code of an error."""
    for kind, code in _CODES.items():
        if isinstance(error, kind):
            return code
    return FAILED


def print_error(message: str) -> None:
    """Print an error on stderr, in one line."""
    sys.stderr.write(f"skep: {' '.join(message.split())}\n")


def _advice(error: SkepError) -> str:
    if isinstance(error, Unauthenticated):
        return "; set --token or SKEP_TOKEN to a token or an API key"
    if isinstance(error, Forbidden):
        return "; use a token or an API key that does"
    if isinstance(error, OutcomeUnknown):
        return "; check whether it was applied before retrying"
    if "cannot be reached" in str(error):
        return "; start a server with skep serve, or set --url or SKEP_URL"
    return ""
