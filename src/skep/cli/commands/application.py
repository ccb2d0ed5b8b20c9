"""``skep application``: what writes under versions, such as a Spark query."""

from typing import Annotated

import typer

from skep.cli import output
from skep.cli.connect import DEFAULT_URL, Token, Url, connect
from skep.cli.options import Json, Yes, confirm
from skep.client.request import delete, read
from skep.wire import paths
from skep.wire.journal.sink import AppResponse

app = typer.Typer(no_args_is_help=True)

Name = Annotated[
    str, typer.Argument(help="The application: its txnAppId, or the id of its Spark query.")
]


@app.command()
def show(name: Name, url: Url = DEFAULT_URL, token: Token = None, as_json: Json = False) -> None:
    """Show the last version that an application has committed."""
    with connect(url, token) as client:
        found = client.connection.send(read(paths.application(name))).decode(AppResponse)
    words = "no version" if found.version is None else f"version {found.version}"
    output.print_done(found, f"{words} committed", as_json=as_json)


@app.command()
def reset(
    name: Name,
    url: Url = DEFAULT_URL,
    token: Token = None,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Let an application start over, and release its name: what it writes again is there twice."""
    confirm(f"Forget which versions {name!r} has committed?", yes=yes)
    with connect(url, token) as client:
        found = client.connection.send(delete(paths.application(name))).decode(AppResponse)
    words = (
        "its owner is" if found.version is None else f"version {found.version} and all before are"
    )
    output.print_done(found, f"{words} forgotten", as_json=as_json)
