"""``skep key``: the file of API keys that a server reads."""

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

File = Annotated[
    Path, typer.Option("--file", envvar="SKEP_API_KEYS", help="The file with the keys.")
]
Roles = Annotated[
    list[str], typer.Option("--role", help=f"What it may do: {', '.join(ROLES)}. Can be repeated.")
]
Queues = Annotated[
    list[str] | None,
    typer.Option("--queue", help="Only for this queue, or for all that begin so: mail-*."),
]
Subject = Annotated[str | None, typer.Option(help="Who has it; kept with what he pushes.")]
Replaces = Annotated[
    str | None,
    typer.Option(help="The id of the key it replaces: it takes over its applications and quotas."),
]
Quotas = Annotated[
    list[str] | None,
    typer.Option(
        "--quota",
        metavar="NAME=LIMIT",
        help=f"A limit of its own: {', '.join(Quota.__struct_fields__)}. 0 is none.",
    ),
]
Expires = Annotated[
    datetime | None,
    typer.Option(help="When it ends, in UTC.", formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"]),
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
    """Make a key and print it: it cannot be shown again, because only its hash is kept."""
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
    pairs = (each.partition("=") for each in given)
    try:
        return msgspec.convert({name: limit for name, _, limit in pairs}, Quota, strict=False)
    except msgspec.ValidationError as error:
        raise Invalid("quota", str(error)) from None


def _principal(file: Path, replaces: str | None) -> str | None:
    """The principal of the key to be replaced, which may be a replacement itself."""
    if replaces is None:
        return None
    known = {key.id: key for key in read_keys(file)}
    if replaces not in known:
        raise NotFound(f"there is no key {replaces!r}")
    return known[replaces].principal or replaces


@app.command("list")
def list_keys(file: File, as_json: Json = False) -> None:
    """List the keys in a file, without their secrets."""
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
        *(shown, columns, rows), as_json=as_json, empty=f"{file} holds no key; skep key create"
    )


@app.command()
def revoke(
    key: Annotated[str, typer.Argument(help="The id of the key.")],
    file: File,
    as_json: Json = False,
) -> None:
    """Remove a key; servers notice within seconds."""
    revoke_key(file, key)
    output.print_done({"revoked": key}, f"key {key} is revoked", as_json=as_json)
