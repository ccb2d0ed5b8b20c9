"""How commands end: a line for people, a number for programs."""

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
    0: "done",
    FAILED: "refused or failed",
    2: "wrong usage",
    UNAVAILABLE: "the server cannot be reached or is overloaded; nothing was written",
    NOTHING_FOUND: "nothing found",
    OUTCOME_UNKNOWN: "the answer was lost: it may have been done, or not",
}


_CODES: dict[type[SkepError], int] = {
    Unavailable: UNAVAILABLE,
    NotFound: NOTHING_FOUND,
    OutcomeUnknown: OUTCOME_UNKNOWN,
}


class Commands(TyperGroup):
    """A tree of commands in which an error of ours ends with one line and a number."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except SkepError as error:
            complain(f"{error}{_advice(error)}")
            raise typer.Exit(code_of(error)) from None


def code_of(error: SkepError) -> int:
    for kind, code in _CODES.items():
        if isinstance(error, kind):
            return code
    return FAILED


def complain(words: str) -> None:
    """Say on stderr, in one line, what is wrong and what to do."""
    sys.stderr.write(f"skep: {' '.join(words.split())}\n")


def _advice(error: SkepError) -> str:
    if isinstance(error, Unauthenticated):
        return "; give a token or a key with --token or SKEP_TOKEN"
    if isinstance(error, Forbidden):
        return "; use a token or a key that does"
    if isinstance(error, OutcomeUnknown):
        return "; look before you repeat it"
    if "cannot be reached" in str(error):
        return "; start one with skep serve, or name another with --url or SKEP_URL"
    return ""
