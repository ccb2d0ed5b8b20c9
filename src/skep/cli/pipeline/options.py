"""Options that all or several pipelines share."""

import functools
import inspect
import re
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from skep.cli.connect import DEFAULT_URL, Token, Url
from skep.cli.options import Json

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def seconds_of(text: str | float) -> float:
    """Return a duration such as 10s, 15m or 1h in seconds."""
    match = re.fullmatch(r"\s*(\d+)\s*(ms|s|m|h|d)\s*", str(text))
    if match is None:
        raise typer.BadParameter(f"must be a duration such as 10s, 15m or 1h, not {text!r}")
    return int(match[1]) * _UNITS[match[2]]


Queues = Annotated[
    list[str] | None,
    typer.Option("--queue", help="Only this queue. Repeatable. Default: all queues."),
]
Follow = Annotated[bool, typer.Option("--follow", "-f", help="Run until interrupted.")]
Every = Annotated[
    str, typer.Option(help="With --follow: interval between batches, such as 10s, 5m or 1h.")
]
AllowLoss = Annotated[
    bool, typer.Option(help="Continue although messages were deleted before they were read.")
]
To = Annotated[str, typer.Option("--to", help="Directory for the results.")]
Report = Annotated[
    str | None,
    typer.Option("--report", help="Path of the HTML report. Default: report.html in --to."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a pipeline runs, and the server it reads from."""

    master: Annotated[str, typer.Option(help="Spark master.")] = "local[*]"
    remote: Annotated[
        str | None, typer.Option(help="Spark Connect server to use instead: sc://host:15002.")
    ] = None
    checkpoint: Annotated[
        str | None,
        typer.Option(
            help="Directory of the checkpoint. Default: in --to, or in "
            "~/.local/share/skep/pipelines."
        ),
    ] = None
    url: Url = DEFAULT_URL
    token: Token = field(default=None, repr=False)
    as_json: Json = False

    def located(self, path: str) -> str:
        """Return a local path as an absolute one; a remote path is left to its Spark."""
        return str(Path(path).resolve()) if self.is_local(path) else path

    def is_local(self, path: str) -> bool:
        """Whether a path is on this machine."""
        return not self.remote and self.master.startswith("local") and "://" not in path


def placed(command: Any) -> Any:
    """Add the options of ``Place`` to a command, and call it with the place."""
    parameters = inspect.signature(command).parameters.values()
    own = [parameter for parameter in parameters if parameter.name != "place"]
    hints = get_type_hints(Place, include_extras=True)
    shared = [
        inspect.Parameter(
            option.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=option.default,
            annotation=hints[option.name],
        )
        for option in fields(Place)
        if option.default is not MISSING
    ]

    @functools.wraps(command)
    def run(**given: Any) -> None:
        place = Place(**{option.name: given.pop(option.name) for option in shared})
        command(**given, place=place)

    run.__signature__ = inspect.Signature([*own, *shared])  # type: ignore[attr-defined]
    run.__annotations__ = {option.name: option.annotation for option in (*own, *shared)}
    return run
