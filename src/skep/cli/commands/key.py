"""``skep key``: the API key file of a server."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from skep.cli import output
from skep.cli.options import Json
from skep.errors import Invalid, NotFound
from skep.http.auth.api_key import create_key, read_keys
from skep.http.auth.api_key_file import add_key, revoke_key
from skep.http.auth.principal import ROLES
from skep.model.quota import Quota

app = typer.Typer(no_args_is_help=True)

File = Annotated[Path, typer.Option("--file", envvar="SKEP_API_KEYS", help="API key file.")]
Roles = Annotated[list[str], typer.Option("--role", help=f"Role: {', '.join(ROLES)}. Repeatable.")]
Queues = Annotated[
    list[str] | None,
    typer.Option(
        "--queue", help="Allowed queue, or prefix such as mail-*. Repeatable. Default: all."
    ),
]
Subject = Annotated[
    str | None, typer.Option(help="Owner of the key; stored as the producer of its messages.")
]
Replaces = Annotated[
    str | None,
    typer.Option(
        help="Id of the key to replace; the new key takes over its applications and quotas."
    ),
]
Quotas = Annotated[
    list[str] | None,
    typer.Option(
        "--quota",
        metavar="NAME=LIMIT",
        help=f"Quota: {', '.join(Quota.__struct_fields__)}. 0 is unlimited. Repeatable.",
    ),
]
Expires = Annotated[
    datetime | None,
    typer.Option(help="Expiry time in UTC.", formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"]),
]


@app.command()
def create(
    file: File,
    roles: Roles,
    queues: Queues = None,
    subject: Subject = None,
    replaces: Replaces = None,
    quotas: Quotas = None,
    expires: Expires = None,
    as_json: Json = False,
) -> None:
    """Create an API key and print it. Only its hash is stored: it cannot be printed again."""
    key = create_key(
        roles,
        queues=queues or None,
        subject=subject,
        principal=_principal(file, replaces),
        quota=_quota(quotas or ()),
        expires_at=expires and expires.replace(tzinfo=UTC),
    )
    add_key(file, key.entry)
    output.print_done({"id": key.entry.id, "key": key.text}, key.text, as_json=as_json)


def _quota(given: Sequence[str]) -> Quota:
    pairs = (text.partition("=") for text in given)
    try:
        return msgspec.convert({name: limit for name, _, limit in pairs}, Quota, strict=False)
    except msgspec.ValidationError as error:
        raise Invalid("quota", str(error)) from None


def _principal(file: Path, replaces: str | None) -> str | None:
    """Return the principal of the key to replace, which may be a replacement itself."""
    if replaces is None:
        return None
    keys = {key.id: key for key in read_keys(file)}
    if replaces not in keys:
        raise NotFound(f"API key {replaces!r} does not exist")
    return keys[replaces].principal or replaces


@app.command("list")
def list_keys(file: File, as_json: Json = False) -> None:
    """List the API keys in a file, without their secrets."""
    keys = read_keys(file)
    shown = [
        {
            "id": key.id,
            "roles": key.roles,
            "queues": key.queues,
            "subject": key.subject,
            "principal": key.principal or key.id,
            "quota": msgspec.to_builtins(key.quota),
            "expiresAt": key.expires_at,
        }
        for key in keys
    ]
    rows = [
        (
            key.id,
            ", ".join(key.roles),
            "all" if key.queues is None else ", ".join(key.queues),
            key.subject,
            key.expires_at,
        )
        for key in keys
    ]
    columns = ("id", "roles", "queues", "subject", "expires at")
    output.print_list(
        *(shown, columns, rows),
        as_json=as_json,
        empty=f"no API keys in {file}; create one with skep key create",
    )


@app.command()
def revoke(
    key: Annotated[str, typer.Argument(help="Id of the API key.")],
    file: File,
    as_json: Json = False,
) -> None:
    """Revoke an API key. Servers reload the file within seconds."""
    revoke_key(file, key)
    output.print_done({"revoked": key}, f"revoked API key {key}", as_json=as_json)
