"""``skep application``: writers of the exactly-once sink, such as Spark queries."""

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
    str, typer.Argument(help="The txnAppId of the application, or the id of its Spark query.")
]


@app.command()
def show(name: Name, url: Url = DEFAULT_URL, token: Token = None, as_json: Json = False) -> None:
    """Show the last version that an application committed."""
    with connect(url, token) as client:
        state = client.connection.send(read(paths.application(name))).decode(AppResponse)
    version = "none" if state.version is None else state.version
    output.print_done(state, f"last committed version: {version}", as_json=as_json)


@app.command()
def reset(
    name: Name,
    url: Url = DEFAULT_URL,
    token: Token = None,
    yes: Yes = False,
    as_json: Json = False,
) -> None:
    """Delete the committed versions and the owner of an application.

    The application then starts over: versions that it writes again are stored twice.
    """
    confirm(f"Delete the committed versions of application {name!r}?", yes=yes)
    with connect(url, token) as client:
        state = client.connection.send(delete(paths.application(name))).decode(AppResponse)
    version = "none" if state.version is None else state.version
    output.print_done(state, f"reset {name}, last committed version: {version}", as_json=as_json)
