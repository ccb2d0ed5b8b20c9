"""Backups, into the directory that the operator has configured."""

from functools import partial
from pathlib import Path

from skep.errors import Conflict, Invalid
from skep.http.auth.principal import Permission
from skep.http.request import HttpRequest, HttpResponse
from skep.http.routing import Route, every_queue
from skep.wire import paths
from skep.wire.admin.maintenance import BackupBody, BackupResponse


async def backup(directory: Path | None, request: HttpRequest) -> HttpResponse:
    """Write a copy of the store while the server runs."""
    target = _place(directory, request.body.path)
    await request.broker.backup(target)
    return HttpResponse(BackupResponse(path=str(target)), 201)


def _place(directory: Path | None, path: str) -> Path:
    """The directory of a backup; it must be inside the backup directory."""
    if directory is None:
        raise Conflict("backups are not enabled; set SKEP_BACKUP_DIRECTORY")
    try:
        root = directory.resolve()
        target = (root / path).resolve()
    except (OSError, ValueError, RuntimeError):
        raise Invalid("path", "is not a path") from None
    if root not in target.parents:
        raise Invalid("path", "must be inside the backup directory of the server")
    return target


def backup_route(directory: Path | None) -> Route:
    return Route(
        method="POST",
        path=paths.BACKUP,
        handler=partial(backup, directory),
        needs=Permission.ADMIN,
        queues=every_queue,
        summary="Write a copy of the store into the backup directory, while the server runs.",
        body=BackupBody,
        response=BackupResponse,
        status=201,
    )
