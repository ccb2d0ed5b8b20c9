"""``skep backup`` and ``skep restore``."""

from pathlib import Path
from typing import Annotated

import typer

from skep import embedded
from skep.cli import output
from skep.cli.connect import DEFAULT_URL, Token, Url, connect
from skep.cli.options import Json

TIMEOUT = 3600.0
"""Seconds that the server may take to copy files that cannot be linked."""


def backup(
    path: Annotated[
        str, typer.Argument(help="Path of the backup, relative to the server's backup directory.")
    ],
    url: Url = DEFAULT_URL,
    token: Token = None,
    as_json: Json = False,
) -> None:
    """Back up the store of a running server.

    The server copies its store to PATH in its SKEP_BACKUP_DIRECTORY, and keeps serving requests
    meanwhile. PATH must not exist yet.
    """
    with connect(url, token, timeout=TIMEOUT) as client:
        full_path = client.backup(path)
    output.print_done({"path": full_path}, full_path, as_json=as_json)


def restore(
    backup: Annotated[Path, typer.Argument(help="Directory of a backup made by skep backup.")],
    path: Annotated[Path, typer.Argument(help="Directory of the new store; must not exist.")],
    as_json: Json = False,
) -> None:
    """Restore a backup to a local directory.

    Every entry is verified first: a damaged backup is rejected, and nothing is written. Start a
    server on the restored store with skep serve --store PATH.
    """
    embedded.restore(backup, path)
    output.print_done({"path": path}, f"restored to {path}", as_json=as_json)
