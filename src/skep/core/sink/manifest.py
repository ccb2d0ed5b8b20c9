"""The records of a sink: staged chunks, commit manifests, and the progress of each application.

All of them are entries, and each write names the version of the entry that it has read. So when
several servers publish, replace, drop or sweep a chunk at the same time, one of them succeeds.

    sink.stages      app, version, stage, chunk   -> the contents of the chunk, and where it is
    sink.chunks      the same and a random id     -> the chunk itself
    sink.apps        app                          -> the last version, and how far it is published
    sink.batches     app                          -> the same for an app without versions
    sink.decisions   space and app                -> the chunks of a version published in steps
"""

import unicodedata
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import NamedTuple
from uuid import uuid4

import msgspec
from msgspec.structs import replace

from skep.core.aio import next_slice, yielding
from skep.core.log.entry_table import PAGE, decode_entry, read_entries
from skep.core.sink.chunk import Content, Part
from skep.errors import Invalid
from skep.model.change import EntryUpdate
from skep.model.entry import Entry
from skep.model.name import MAX_NUMBER, check_count, check_text
from skep.model.sink import Stage
from skep.store.protocol import EntryStore

STAGES, CHUNKS, MANIFESTS = "sink.stages", "sink.chunks", "sink.decisions"
APPS, BATCHES = "sink.apps", "sink.batches"
MAX_CHUNKS = 1_000_000
MAX_LABEL = 255
_SEPARATOR = "\x1f"
"""Separates the parts of a key; no part can contain it."""


class ChunkRef(msgspec.Struct, frozen=True, array_like=True):
    """A staged chunk, or a part of it: where it is stored, and its size.

    A chunk with many partitions or ids consists of parts, which are published one by one; only
    the parts then have ``queues``, ``partitions`` and ``ids``.
    """

    data: str
    rows: int
    size: int
    queues: dict[str, int]
    content: Content | None = None
    partitions: int = 0
    ids: int = 0
    parts: list["ChunkRef"] | None = None

    @property
    def stored(self) -> list["ChunkRef"]:
        """The parts, in order; the chunk itself if it has none."""
        return self.parts or [self]


class ChunkSize(msgspec.Struct, frozen=True, array_like=True):
    """The first fields of a ``ChunkRef``: decoding all queues of a chunk may be slow."""

    data: str
    rows: int
    size: int


class Fingerprint(msgspec.Struct, frozen=True, array_like=True):
    """Distinguishes a repeated version from a different version of the same number.

    ``stages`` is a digest of the stages' names. ``checkpoint`` names the query and where it keeps
    its progress, if it does.
    """

    content: Content | None
    stages: bytes
    checkpoint: str | None

    @property
    def rows(self) -> int:
        return self.content.rows if self.content else 0

    def is_of(self, other: "Fingerprint") -> bool:
        """Whether both are of the same version.

        A query that runs an epoch again from its own checkpoint reads the same rows. Its results
        may differ, such as random ids or sums of floats in another order, so only the number of
        rows is compared then.
        """
        if self.content is None or other.content is None:
            return True
        if self.checkpoint is not None and self.checkpoint == other.checkpoint:
            return self.content.rows == other.content.rows
        return self.content == other.content


class Progress(msgspec.Struct, frozen=True, array_like=True):
    """The last version of an app, its published chunks unless all are, and the owner of the app.

    An app belongs to the principal that first staged or committed under its name, with a version
    or without; it has no version before its first commit. The owner is stored in ``sink.apps``, or
    else in ``sink.batches``. Without authentication an app has no owner.
    """

    version: int | None
    done: int | None = None
    owner: str | None = None
    fingerprint: Fingerprint | None = None


class CommitManifest(msgspec.Struct, frozen=True, array_like=True):
    """The chunks of a committed version, in the order in which they are published."""

    version: int
    refs: list[ChunkRef]


class SinkVersion(NamedTuple):
    """A version of an app; an app without versions has a single one."""

    app: str
    version: int | None

    @property
    def number(self) -> int:
        return self.version or 0

    @property
    def progress_key(self) -> "ProgressKey":
        return ProgressKey(APPS if self.version is not None else BATCHES, self.app)

    @property
    def prefix(self) -> str:
        version = "" if self.version is None else str(self.version)
        return _SEPARATOR.join((self.app, version, ""))

    def key(self, stage: str, chunk: int) -> str:
        return f"{self.prefix}{stage}{_SEPARATOR}{chunk:07}"


class ProgressKey(NamedTuple):
    """The space and key under which the progress of an app is stored."""

    space: str
    app: str

    @property
    def manifest_key(self) -> str:
        return f"{self.space}{_SEPARATOR}{self.app}"


class StagedChunk(NamedTuple):
    """A chunk that is staged and not published."""

    entry: Entry
    ref: ChunkRef

    @property
    def stage(self) -> str:
        """The stage, prefixed with its version."""
        return self.entry.key.rpartition(_SEPARATOR)[0]

    @property
    def app(self) -> str:
        return _app_of_chunk(self.entry)

    @property
    def chunk(self) -> int:
        return int(self.entry.key.rpartition(_SEPARATOR)[2])

    def taken(self) -> EntryUpdate:
        """The update that ends the staging of the chunk, if it is still as it was read."""
        return EntryUpdate(
            space=STAGES, key=self.entry.key, value=None, expected=self.entry.version
        )


def _app_of_chunk(staged: Entry) -> str:
    return staged.key.partition(_SEPARATOR)[0]


def progress_key_of(manifest_key: str) -> ProgressKey:
    """The progress key of the manifest that is stored under a key."""
    return ProgressKey(*manifest_key.split(_SEPARATOR))


def check_version(app: object, version: object) -> SinkVersion:
    label = _check_label("app", app)
    if version is None:
        return SinkVersion(label, None)
    return SinkVersion(label, check_count("version", version, most=MAX_NUMBER))


def check_stage(field: str, stage: object) -> str:
    label = _check_label(field, stage)
    if "/" in label:
        raise Invalid(field, "must not contain a slash")
    return label


def _check_label(field: str, text: object) -> str:
    label = check_text(field, text)
    if not 0 < len(label) <= MAX_LABEL:
        raise Invalid(field, f"must have 1 to {MAX_LABEL} characters, not {len(label)}")
    if any(unicodedata.category(char) == "Cc" for char in label):
        raise Invalid(field, "must not contain control characters")
    return label


def fingerprint_of(
    stages: Iterable[Stage], refs: Iterable[ChunkRef], checkpoint: str | None
) -> Fingerprint:
    """The fingerprint of a version with these stages, as far as their chunks exist."""
    contents = [ref.content for ref in refs]
    present = [content for content in contents if content is not None]
    names = msgspec.msgpack.encode([(each.stage, each.chunks, each.rows) for each in stages])
    return Fingerprint(
        content=sum(present, Content()) if len(present) == len(contents) else None,
        stages=sha256(names).digest(),
        checkpoint=checkpoint,
    )


def put_chunk(
    key: str,
    replaced: Entry | None,
    parts: Sequence[Part],
    content: Content,
) -> list[EntryUpdate]:
    """The updates that stage a chunk, in place of the one that was staged before."""
    ref = _chunk_ref(f"{key}{_SEPARATOR}{uuid4().hex}", parts, content)
    expected = replaced.version if replaced else 0
    updates = [EntryUpdate(space=STAGES, key=key, value=_encode(ref), expected=expected)]
    updates += [
        EntryUpdate(space=CHUNKS, key=each.data, value=part.value)
        for each, part in zip(ref.stored, parts, strict=True)
    ]
    return updates + (drop_data([decode_entry(replaced, ChunkRef)]) if replaced else [])


def _chunk_ref(data: str, parts: Sequence[Part], content: Content) -> ChunkRef:
    refs = [
        ChunkRef(
            data=f"{data}{_SEPARATOR}{index:06}" if index else data,
            rows=part.rows,
            size=part.size,
            queues=part.queues,
            partitions=part.partitions,
            ids=part.ids,
        )
        for index, part in enumerate(parts)
    ]
    if len(refs) == 1:
        return replace(refs[0], content=content)
    size = sum(part.size for part in parts)
    return ChunkRef(data, content.rows, size, {}, content, parts=refs)


def put_progress(
    progress_key: ProgressKey, progress: Progress | None, expected: int
) -> EntryUpdate:
    value = _encode(progress) if progress else None
    return EntryUpdate(
        space=progress_key.space, key=progress_key.app, value=value, expected=expected
    )


def is_published(progress: Entry) -> bool:
    """Whether the last committed version of an app is fully published."""
    return decode_entry(progress, Progress).done is None


def is_claim(progress: Entry) -> bool:
    """Whether an app has an owner and no committed version."""
    return decode_entry(progress, Progress).version is None


def forget(progress: Entry) -> EntryUpdate:
    """The update that deletes the progress of an app, if it is still as it was read."""
    return EntryUpdate(
        space=progress.space, key=progress.key, value=None, expected=progress.version
    )


def put_manifest(progress_key: ProgressKey, manifest: CommitManifest | None) -> EntryUpdate:
    value = _encode(manifest) if manifest else None
    return EntryUpdate(space=MANIFESTS, key=progress_key.manifest_key, value=value)


def drop_data(refs: Iterable[ChunkRef]) -> list[EntryUpdate]:
    return [
        EntryUpdate(space=CHUNKS, key=part.data, value=None) for ref in refs for part in ref.stored
    ]


async def read_staged(store: EntryStore, prefix: str) -> list[StagedChunk]:
    """The staged chunks whose keys begin with a prefix, in order."""
    entries = await read_entries(store, STAGES, prefix)
    return [StagedChunk(entry, decode_entry(entry, ChunkRef)) async for entry in yielding(entries)]


async def read_sizes(store: EntryStore) -> list[tuple[str, int]]:
    """The app and the size of each staged chunk."""
    entries = await read_entries(store, STAGES)
    return [
        (_app_of_chunk(entry), decode_entry(entry, ChunkSize).size)
        async for entry in yielding(entries)
    ]


async def find_size(store: EntryStore, key: str) -> int | None:
    """The size of a staged chunk, if it is staged."""
    found = await store.find_entries(STAGES, [key])
    return decode_entry(found[0], ChunkSize).size if found else None


async def read_progress(
    store: EntryStore, progress_key: ProgressKey
) -> tuple[Progress | None, int]:
    """The progress of an app, and the version of its entry."""
    found = await store.find_entries(progress_key.space, [progress_key.app])
    return (decode_entry(found[0], Progress), found[0].version) if found else (None, 0)


async def read_owner(store: EntryStore, app: str) -> str | None:
    """The owner of an app, for writes with versions and without."""
    for space in (APPS, BATCHES):
        progress, _ = await read_progress(store, ProgressKey(space, app))
        if progress is not None and progress.owner is not None:
            return progress.owner
    return None


async def read_owners(store: EntryStore, apps: Sequence[str]) -> dict[str, str]:
    """The owners of apps, without those that have none."""
    owners: dict[str, str] = {}
    for space in (BATCHES, APPS):
        for start in range(0, len(apps), PAGE):
            for entry in await store.find_entries(space, apps[start : start + PAGE]):
                if owner := decode_entry(entry, Progress).owner:
                    owners[entry.key] = owner
            await next_slice()
    return owners


async def read_manifest(store: EntryStore, progress_key: ProgressKey) -> CommitManifest | None:
    found = await store.find_entries(MANIFESTS, [progress_key.manifest_key])
    return decode_entry(found[0], CommitManifest) if found else None


async def read_data(store: EntryStore, refs: Sequence[ChunkRef]) -> list[bytes] | None:
    """The data of chunks; None if one was published or dropped meanwhile."""
    found = await store.find_entries(CHUNKS, [ref.data for ref in refs])
    return [entry.value for entry in found] if len(found) == len(refs) else None


def _encode(record: msgspec.Struct) -> bytes:
    return msgspec.msgpack.encode(record)
