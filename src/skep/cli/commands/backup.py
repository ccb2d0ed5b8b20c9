"""``skep backup`` and ``skep restore``."""

from pathlib import Path
from typing import Annotated

import typer

from skep import embedded
from skep.cli import output
from skep.cli.connect import DEFAULT_URL, Token, Url, connect
from skep.cli.options import Json

TIMEOUT = 3600.0
"""Seconds that the server may take to copy what cannot be linked."""


def backup(
    path: Annotated[str, typer.Argument(help="A path below the server's backup directory.")],
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Let the server copy its store, while work goes on.

    The server writes it below the directory that its setting SKEP_BACKUP_DIRECTORY names. There
    must be nothing at PATH yet.
    """
    with connect(url, token, timeout=TIMEOUT) as client:
        made = client.backup(path)
    output.print_done({"path": made}, made, as_json=as_json)


def restore(
    backup: Annotated[Path, typer.Argument(help="A directory that skep backup has made.")],
    path: Annotated[Path, typer.Argument(help="Where the store goes; it must not exist.")],
    as_json: Json = False,
) -> None:
    """Put a backup in place, on this machine.

    Every entry of it is read first: a damaged backup is refused, and nothing is left behind.
    Start the server on it with skep serve --store PATH.
    """
    embedded.restore(backup, path)
    output.print_done({"path": path}, f"{path} holds the backup now", as_json=as_json)
