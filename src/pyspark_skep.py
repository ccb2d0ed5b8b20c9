"""Skep's queues in Spark: ``format("skep")`` for batches and streams, to read and to write.

One module that needs only pyspark and pyarrow, because Spark sends it about as it is. Spark finds
it by its name. It looks for all such modules at once, and finds none if one of them cannot be
imported: so nothing here may fail at import, and pyarrow's absence is told to who uses it.
"""

# Annotations name pyarrow's types, also where there is no pyarrow.
from __future__ import annotations

import json
import logging
import os
import re
import ssl
import sys
import threading
import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import Field, dataclass, field, fields, replace
from datetime import UTC, datetime
from difflib import get_close_matches
from hashlib import sha256
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from itertools import groupby
from pathlib import Path
from random import random
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote, urlencode, urlsplit
from uuid import uuid4

from pyspark.sql import datasource
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import (
    BinaryType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

try:
    import pyarrow as pa
except Exception:  # whatever it is, see above
    pa = None

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSourceStreamArrowWriter
    from pyspark.sql.streaming.datasource import (
        ReadAllAvailable,
        ReadLimit,
        ReadMaxBytes,
        ReadMaxRows,
        ReadMinRows,
        SupportsTriggerAvailableNow,
    )
else:
    # Spark 4.0 has neither; 4.1 has no limits. There the stream reads all that is new.
    DataSourceStreamArrowWriter = getattr(datasource, "DataSourceStreamArrowWriter", object)
    try:
        from pyspark.sql.streaming.datasource import (
            ReadAllAvailable,
            ReadMaxBytes,
            ReadMaxRows,
            ReadMinRows,
            SupportsTriggerAvailableNow,
        )
    except ImportError:
        SupportsTriggerAvailableNow = object

log = logging.getLogger("pyspark_skep")

Position = dict[str, Any]
Range = tuple[int, int, int]
"""A lane, and which of its messages: from the first to before the second."""

DEFAULT_URL = "http://127.0.0.1:6632"
API = "/api/v1"
JOURNAL = f"{API}/journal"
ARROW = "application/vnd.apache.arrow.stream"
ATTEMPTS = 8
"""In a row without any progress; with the pauses this bears a restart of the server."""
TIMEOUT = 60.0
COMMIT_TIMEOUT = 600.0
"""What thousands of tasks have staged is published in one request."""
SPLIT_ROWS = 250_000
MOST_SPLITS = 64
CHUNK_BYTES = 4_000_000
PUSHED_ROWS = 1000


# Errors.


class InvalidOption(ValueError):
    def __init__(self, name: str, reason: str) -> None:
        super().__init__(f"option {name!r} {reason}")


class InvalidColumns(ValueError):
    """The DataFrame's columns, or a schema that was given, are not what a queue has."""


class Refused(RuntimeError):
    """The server says no, and would say so again."""

    def __init__(self, status: int, code: str, words: str) -> None:
        super().__init__(words)
        self.status = status
        self.code = code

    @property
    def lost(self) -> bool:
        """Whether what was asked for is no longer there."""
        return self.status == 404 or self.mismatch

    @property
    def mismatch(self) -> bool:
        """Whether a position was of another store, or of a queue that was made anew."""
        return self.code in ("PositionMismatch", "POSITION_MISMATCH")


class Interrupted(RuntimeError):
    """The server did not answer, or not to the end: another attempt may succeed."""

    def __init__(self, words: str, retry_after: float = 0.0) -> None:
        super().__init__(words)
        self.retry_after = retry_after


class DataLost(RuntimeError):
    """Messages between two positions are gone."""


# Options.


def _url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be a URL that begins with http:// or https://")
    if parts.username is not None or parts.query or parts.fragment:
        raise ValueError("must be a URL without a user, a query or a fragment")
    return text.rstrip("/")


def _some(text: str) -> str:
    if not text:
        raise ValueError("must not be empty")
    return text


def _file(text: str) -> str:
    if not Path(text).is_file():
        raise ValueError(f"names {text!r}, which is not a file here")
    return text


def _variable(text: str) -> str:
    if not os.environ.get(text):
        raise ValueError(f"names {text!r}, which is not set in the environment here")
    return text


def _names(text: str) -> tuple[str, ...]:
    names = json.loads(text) if text.lstrip().startswith("[") else text.split(",")
    names = [name.strip() if isinstance(name, str) else "" for name in names]
    if not all(names) or not names:
        raise ValueError("must be names with commas between them, or a JSON list of names")
    return tuple(sorted(set(names)))


def _pattern(text: str) -> str:
    try:
        re.compile(_some(text))
    except re.error as error:
        raise ValueError(f"must be a regular expression: {error}") from None
    return text


def _count(text: str) -> int:
    if not text.strip().isdecimal() or int(text) < 1:
        raise ValueError(f"must be a whole number from 1, not {text!r}")
    return int(text)


def _version(text: str) -> int:
    if not text.strip().isdecimal():
        raise ValueError(f"must be a whole number from 0, not {text!r}")
    return int(text)


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"must be true or false, not {text!r}")
    return text.lower() == "true"


def _milliseconds(text: str) -> int:
    found = re.fullmatch(r"\s*(\d+)\s*(ms|s|m|h|)\s*", text)
    if found is None:
        raise ValueError(f"must be a time such as 500ms, 10s, 15m or 1h, not {text!r}")
    return int(found[1]) * {"s": 1000, "m": 60_000, "h": 3_600_000}.get(found[2], 1)


def _moment(text: str) -> int:
    """Milliseconds since 1970; a time without a zone is one in UTC."""
    if text.strip().isdecimal():
        return int(text)
    try:
        moment = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(f"must be a time in ISO 8601 or milliseconds, not {text!r}") from None
    moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1000)


def _offsets(text: str) -> str | Position:
    word = text.strip().lower()
    if word in ("earliest", "latest", "group"):
        return word
    try:
        return check_position(json.loads(text))
    except ValueError:
        raise ValueError(
            "must be earliest, latest, group, or a position as JSON, as POST "
            "/api/v1/journal/heads gives it"
        ) from None


def _one_of(*words: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text.strip().lower() not in words:
            raise ValueError(f"must be one of {', '.join(words)}, not {text!r}")
        return text.strip().lower()

    return parse


def _option(parse: Callable[[str], Any], default: Any = None, *, shown: bool = True) -> Any:
    return field(default=default, repr=shown, metadata={"parse": parse})


@dataclass(frozen=True)
class Options:
    """What a reader or a writer was told. The names are those of the options in camel case."""

    url: str = _option(_url, DEFAULT_URL)
    token: str | None = _option(_some, shown=False)
    token_file: str | None = _option(_file)
    token_env: str | None = _option(_variable)
    queue: tuple[str, ...] | None = _option(_names)
    queue_pattern: str | None = _option(_pattern)
    partitions: tuple[str, ...] | None = _option(_names)
    partition_prefix: str | None = _option(_some)
    starting_offsets: str | Position | None = _option(_offsets)  # noqa: RUF009 - frozen
    ending_offsets: str | Position | None = _option(_offsets)  # noqa: RUF009 - frozen
    starting_timestamp: int | None = _option(_moment)
    ending_timestamp: int | None = _option(_moment)
    starting_offsets_by_timestamp_strategy: str = _option(_one_of("error", "latest"), "error")
    consumer_group: str | None = _option(_some)
    commit_cursor: bool = _option(_flag, True)
    max_offsets_per_trigger: int | None = _option(_count)
    max_bytes_per_trigger: int | None = _option(_count)
    min_offsets_per_trigger: int | None = _option(_count)
    max_trigger_delay: int = _option(_milliseconds, 15 * 60_000)
    min_partitions: int | None = _option(_count)
    max_records_per_partition: int | None = _option(_count)
    preserve_order: bool = _option(_flag, False)
    poll_timeout: int = _option(_milliseconds, 500)
    fail_on_data_loss: bool = _option(_flag, True)
    view: str = _option(
        _one_of("messages", "dead-letters", "consumers", "partitions", "stats", "latencies"),
        "messages",
    )
    payload_format: str = _option(_one_of("text", "binary"), "text")
    batch_rows: int = _option(_count, 8192)
    partition: str | None = _option(_some)
    transaction_id: str = _option(_some, "transaction_id")
    guarantee: str = _option(_one_of("exactly-once", "idempotent", "at-least-once"), "exactly-once")
    txn_app_id: str | None = _option(_some)
    txn_version: int | None = _option(_version)
    checkpoint_location: str | None = _option(_some)
    """Spark's own option: it tells a query from another one with a copy of its checkpoint."""

    @property
    def selection(self) -> dict[str, Any]:
        """The queues, as the journal is asked for them."""
        queues = None if self.queue is None else list(self.queue)
        return {"queues": queues, "pattern": self.queue_pattern}

    @property
    def group(self) -> str:
        """The group of a stream; one without a name has always the same for the same queues."""
        if self.consumer_group is not None:
            return self.consumer_group
        about = json.dumps([self.selection, self.partitions, self.partition_prefix])
        return f"spark-{sha256(about.encode()).hexdigest()[:12]}"

    def secret(self) -> str | None:
        """The token. It is looked up where it is used, so that plans do not carry it about."""
        try:
            if self.token_file is not None:
                return Path(_file(self.token_file)).read_text().strip()
            if self.token_env is not None:
                return os.environ[_variable(self.token_env)]
        except ValueError as error:
            name = "tokenEnv" if self.token_file is None else "tokenFile"
            raise InvalidOption(name, str(error)) from None
        return self.token or os.environ.get("SKEP_TOKEN")


def _camel(name: str) -> str:
    return re.sub("_([a-z])", lambda found: found[1].upper(), name)


_FIELDS = {_camel(each.name).lower(): each for each in fields(Options)}

# What Spark adds by itself: the argument of load and save, the query's own options, and the
# properties of a table, once more with "option." in front.
_SPARKS = re.compile(
    r"path|paths|queryname|owner|provider|location|comment|external"
    r"|is_managed_location|serialization\.format|option\..*"
)


def parse_options(given: Mapping[str, str]) -> Options:
    """The options that were given, in any case; raises ``InvalidOption`` for the first bad one."""
    values: dict[str, Any] = {"url": os.environ.get("SKEP_URL") or DEFAULT_URL}
    for key, text in given.items():
        known = _FIELDS.get(key.lower())
        if known is not None:
            values[known.name] = _parse(known, text)
        elif not _SPARKS.fullmatch(key.lower()):
            raise InvalidOption(key, f"is not known{_nearest(key)}")
    options = Options(**values)
    if sum(each is not None for each in (options.token, options.token_file, options.token_env)) > 1:
        raise InvalidOption("token", "must not be given twice: token, tokenFile or tokenEnv")
    return options


def _parse(known: Field[Any], text: str) -> Any:
    try:
        return known.metadata["parse"](text)
    except ValueError as error:
        raise InvalidOption(_camel(known.name), str(error)) from None


def _nearest(key: str) -> str:
    near = get_close_matches(key.lower(), _FIELDS, n=1)
    return f"; did you mean {_camel(_FIELDS[near[0]].name)!r}?" if near else ""


_LOST = " (a table that was made with columns has lost its options: make it without)"


def check_reading(options: Options, *, stream: bool) -> None:
    """Refuse what says nothing, or two things."""
    if options.queue is not None and options.queue_pattern is not None:
        raise InvalidOption("queue", "must not be given together with queuePattern")
    if options.view != "messages":
        _check_view(options, stream=stream)
        return
    if options.queue is None and options.queue_pattern is None:
        raise InvalidOption("queue", f"is missing: name a queue, or give a queuePattern{_LOST}")
    for end in ("starting", "ending"):
        both = (getattr(options, f"{end}_offsets"), getattr(options, f"{end}_timestamp"))
        if None not in both:
            raise InvalidOption(f"{end}Offsets", f"must not be given together with {end}Timestamp")
        if stream and end == "ending" and both != (None, None):
            raise InvalidOption("endingOffsets", "is for batches: a stream has no end")


def _check_view(options: Options, *, stream: bool) -> None:
    if stream:
        raise InvalidOption("view", f"{options.view!r} can be read in batches only")
    for name in ("partitions", "partition_prefix", "starting_offsets", "starting_timestamp"):
        if getattr(options, name) is not None:
            raise InvalidOption(_camel(name), f"is for messages, not for the view {options.view!r}")


def check_writing(options: Options, *, overwrite: bool, stream: bool) -> None:
    if overwrite:
        raise InvalidOption("mode", "must be append: what is in a queue is never overwritten")
    if options.queue is not None and len(options.queue) != 1:
        raise InvalidOption("queue", "must name one queue to write to; use a column for several")
    if stream and options.txn_version is not None:
        raise InvalidOption("txnVersion", "is for batches: a stream's epochs are its versions")
    if not stream and (options.txn_app_id is None) != (options.txn_version is None):
        raise InvalidOption("txnAppId", "and txnVersion must be given together")


# Columns.


@dataclass(frozen=True)
class Column:
    name: str
    kind: str = "string"
    source: str = ""
    """Where a view finds it in the server's JSON."""
    nullable: bool = True


_SPARK_TYPES: dict[str, DataType] = {
    "string": StringType(),
    "binary": BinaryType(),
    "int": IntegerType(),
    "long": LongType(),
    "double": DoubleType(),
    "timestamp": TimestampType(),
}

MESSAGES = (
    Column("queue"),
    Column("partition"),
    Column("offset", "long"),
    Column("message_id"),
    Column("transaction_id"),
    Column("trace_id"),
    Column("producer"),
    Column("created_at", "timestamp"),
    Column("payload"),
)
PLACES = (Column("lane", "int"), Column("position", "long"))
"""Where a message stands in the journal, for who asks for it by a schema."""


def columns_of(options: Options) -> tuple[Column, ...]:
    """The columns that a view has."""
    columns = MESSAGES if options.view == "messages" else VIEWS[options.view].columns
    if options.payload_format == "text":
        return columns
    return tuple(
        replace(each, kind="binary") if each.name == "payload" else each for each in columns
    )


def to_schema(columns: Iterable[Column]) -> StructType:
    return StructType([StructField(each.name, _SPARK_TYPES[each.kind]) for each in columns])


def to_arrow(columns: Iterable[Column]) -> pa.Schema:
    """Exactly what Spark expects of a batch; it looks only at the first one of a task."""
    types = {
        "string": pa.string(),
        "binary": pa.binary(),
        "int": pa.int32(),
        "long": pa.int64(),
        "double": pa.float64(),
        "timestamp": pa.timestamp("us", tz="UTC"),
    }
    return pa.schema([pa.field(each.name, types[each.kind], each.nullable) for each in columns])


def project(options: Options, schema: StructType) -> tuple[Column, ...]:
    """The columns of a schema, which may be one that the user gave: fewer, in another order."""
    known = {each.name: each for each in columns_of(options)}
    if options.view == "messages":
        known |= {each.name: each for each in PLACES}
    return tuple(_chosen(known, each) for each in schema.fields)


def _chosen(known: Mapping[str, Column], wanted: StructField) -> Column:
    column = known.get(wanted.name)
    if column is None:
        raise InvalidColumns(f"there is no column {wanted.name!r}, only {', '.join(known)}")
    kind = _SPARK_TYPES[column.kind]
    if wanted.dataType != kind:
        hint = "; see the option payloadFormat" if column.name == "payload" else ""
        raise InvalidColumns(f"column {column.name!r} must be {kind.simpleString()}{hint}")
    return replace(column, nullable=wanted.nullable)


# Tables.

_TABLE = "skep"


def to_table(schema: StructType, options: Mapping[str, str]) -> StructType:
    """The schema of a table in Spark's catalog, with the table's options.

    Spark gives them to who makes a table and to nobody afterwards; but it keeps the schema as it
    is. They are with the column ``queue``: a frame in which that is another one has them no more.
    """
    kept = {key.lower(): text for key, text in options.items() if key.lower() in _FIELDS}
    if "token" in kept:
        reason = "must not be in a catalog for all to see: give tokenFile or tokenEnv"
        raise InvalidOption("token", reason)
    marked = [
        StructField(each.name, each.dataType, each.nullable, {_TABLE: kept})
        if each.name == "queue"
        else each
        for each in schema.fields
    ]
    return StructType(marked)


def options_of_table(schema: StructType) -> dict[str, str]:
    """What a table was made with, if this is the schema of one."""
    found = (each.metadata.get(_TABLE) for each in schema.fields if each.name == "queue")
    return dict(next(found, None) or {})


# Positions.


def check_position(value: Any) -> Position:
    """A position in canonical order, if that is what it is."""
    try:
        queues = {
            str(name): {
                "lanes": {str(int(lane)): int(n) for lane, n in sorted(place["lanes"].items())},
                "number": int(place["number"]),
            }
            for name, place in sorted(value["queues"].items())
        }
        return {"queues": queues, "store": str(value["store"]), "v": int(value["v"])}
    except (AttributeError, KeyError, TypeError):
        raise ValueError("this is not a position") from None


@dataclass(frozen=True)
class Piece:
    """Messages of a lane of a queue: from ``start`` to before ``end``."""

    queue: str
    number: int
    lane: int
    start: int
    end: int


def pieces_between(start: Position, end: Position, *, strict: bool) -> list[Piece]:
    """What lies between two positions, always in the same order.

    A queue that ``start`` does not know is read from its beginning. So is one that is not the same
    any more, unless this is ``strict``.
    """
    pieces = []
    for queue, place in sorted(end["queues"].items()):
        lanes = _lanes_of(start, end, queue, strict=strict)
        for lane, head in sorted((int(lane), head) for lane, head in place["lanes"].items()):
            first = lanes.get(str(lane), 0)
            if first < head:
                pieces.append(Piece(queue, place["number"], lane, first, head))
    return pieces


def _lanes_of(start: Position, end: Position, queue: str, *, strict: bool) -> dict[str, int]:
    known = start["queues"].get(queue)
    if known is None:
        return {}
    if start["store"] == end["store"] and known["number"] == end["queues"][queue]["number"]:
        return dict(known["lanes"])
    if strict:
        raise DataLost(
            f"queue {queue!r} is not the one that was read so far: it was made anew, or the server "
            "has another store. Start with a new checkpoint; with failOnDataLoss=false the queue "
            "is read from its beginning"
        )
    return {}


def rows_between(start: Position, end: Position) -> int:
    return sum(piece.end - piece.start for piece in pieces_between(start, end, strict=False))


def known_part(start: Position, heads: Position) -> Position:
    """What of a position is about queues that are still the same."""
    same = start["store"] == heads["store"]
    queues = {
        name: place
        for name, place in start["queues"].items()
        if same and place["number"] == heads["queues"].get(name, place)["number"]
    }
    return {"queues": queues, "store": heads["store"], "v": heads["v"]}


def up_to(end: Position, target: Position, start: Position) -> Position:
    """A position that is not beyond a target, nor before the start."""
    queues = {}
    for name, place in end["queues"].items():
        limits = target["queues"].get(name, {"number": None, "lanes": {}})
        if limits["number"] == place["number"]:
            begun = _lanes_of(start, end, name, strict=False)
            lanes = {
                lane: max(begun.get(lane, 0), min(head, limits["lanes"].get(lane, 0)))
                for lane, head in place["lanes"].items()
            }
            queues[name] = {"lanes": lanes, "number": place["number"]}
        elif name in start["queues"]:
            queues[name] = start["queues"][name]
    return {"queues": queues, "store": end["store"], "v": end["v"]}


# Planning.


@dataclass
class Split(InputPartition):
    """What one task reads. With a share, only some partitions of its pieces."""

    pieces: tuple[Piece, ...] = ()
    share: tuple[int, int] | None = None


def plan(pieces: Sequence[Piece], options: Options) -> list[Split]:
    """The tasks that read the pieces: the same ones for the same pieces and options."""
    rows = sum(piece.end - piece.start for piece in pieces)
    if not rows:
        return []
    count = count_splits(rows, options)
    if not options.preserve_order:
        return [Split(tuple(some)) for some in cut(pieces, -(-rows // count))]
    return [Split(tuple(pieces), (index, count) if count > 1 else None) for index in range(count)]


def count_splits(rows: int, options: Options) -> int:
    """A task costs tens of milliseconds, so small batches have one."""
    count = min(-(-rows // SPLIT_ROWS), MOST_SPLITS)
    if options.max_records_per_partition is not None:
        count = max(count, -(-rows // options.max_records_per_partition))
    return min(rows, max(count, options.min_partitions or 1))


def cut(pieces: Iterable[Piece], size: int) -> list[list[Piece]]:
    """The pieces in their order, cut and packed so that each part has ``size`` messages."""
    parts: list[list[Piece]] = [[]]
    room = size
    for piece in pieces:
        at = piece.start
        while at < piece.end:
            if not room:
                parts.append([])
                room = size
            end = min(piece.end, at + room)
            parts[-1].append(replace(piece, start=at, end=end))
            room -= end - at
            at = end
    return parts


# The server.


def pause(failures: int, asked: float = 0.0) -> float:
    """Seconds to wait after so many failures in a row."""
    grown = 0.2 * 2.0 ** min(failures - 1, 10)
    return min(max(grown * (0.5 + random() / 2), asked), 5.0)


class Server:
    """The server's HTTP door. A connection per request: this goes through pickle and forks."""

    def __init__(self, options: Options) -> None:
        self._options = options
        self._url = urlsplit(options.url)

    def ask(self, method: str, path: str, body: Any = None, *, timeout: float = TIMEOUT) -> Any:
        """Send JSON, and return the JSON of the answer."""
        content = None if body is None else json.dumps(body).encode()
        return self.send(method, path, content, "application/json", timeout=timeout)

    def send(
        self, method: str, path: str, content: bytes | None, kind: str, *, timeout: float = TIMEOUT
    ) -> Any:
        """Send it until it arrives. Everything that is sent here may arrive twice."""
        failures = 0
        while True:
            try:
                with self.stream(method, path, content, kind, timeout=timeout) as response:
                    answer = response.read()
                return json.loads(answer) if answer else None
            except Interrupted as error:
                failures += 1
                if failures == ATTEMPTS:
                    raise
                time.sleep(pause(failures, error.retry_after))

    @contextmanager
    def stream(
        self, method: str, path: str, content: bytes | None, kind: str, *, timeout: float = TIMEOUT
    ) -> Iterator[HTTPResponse]:
        """The answer to a request, to be read inside of this. What breaks is ``Interrupted``."""
        headers = {"Content-Type": kind, **self._authorization()}
        connection = self._connect(timeout)
        try:
            connection.request(method, self._url.path + path, content, headers)
            response = connection.getresponse()
            if response.status >= 300:
                raise _error(response, self._options.url)
            yield response
            # What is left tells whether the answer was cut off.
            response.read()
        except _broken() as error:
            why = error or type(error).__name__
            raise Interrupted(f"{self._options.url} did not answer to the end: {why}") from error
        finally:
            connection.close()

    def _connect(self, timeout: float) -> HTTPConnection:
        host, port = self._url.hostname or "", self._url.port
        if self._url.scheme == "http":
            return HTTPConnection(host, port, timeout=timeout)
        return HTTPSConnection(host, port, timeout=timeout, context=ssl.create_default_context())

    def _authorization(self) -> dict[str, str]:
        secret = self._options.secret()
        return {} if secret is None else {"Authorization": f"Bearer {secret}"}


def _broken() -> tuple[type[Exception], ...]:
    """What an answer raises that is cut off: Arrow may notice it before HTTP does."""
    return (OSError, HTTPException, *(() if pa is None else (pa.ArrowException,)))


def _error(response: HTTPResponse, url: str) -> Exception:
    content = response.read()
    try:
        problem = json.loads(content)
        words, code = str(problem["error"]), str(problem.get("code") or problem.get("type"))
    except (ValueError, KeyError, TypeError, AttributeError):
        words, code = f"the server answered with status {response.status}", ""
    # Also 500: it may have been done, and everything here may be done twice.
    if response.status in (408, 429, 500, 502, 503, 504):
        asked = response.headers.get("Retry-After") or ""
        return Interrupted(words, float(asked) if asked.isdecimal() else 0.0)
    if response.status == 401:
        words += "; give a token with token, tokenFile or tokenEnv"
    if response.status == 404:
        words += f" at {url}"
    return Refused(response.status, code, words)


def _told_error(told: Mapping[str, Any]) -> Exception:
    """An error in the middle of an answer; another attempt may succeed, unless it says not."""
    if told.get("again", True):
        return Interrupted(told["error"])
    return Refused(told["status"], "", told["error"])


def _segment(name: str) -> str:
    """A name as one segment of a path."""
    return name.replace(".", "%2E") if name in (".", "..") else quote(name, safe="")


# Reading in a task.


def remaining(ranges: Sequence[Range], lanes: Mapping[str, int]) -> list[Range]:
    """What is left of ranges, one for each lane, when the server has come so far in some lanes."""
    reached = {int(lane): position for lane, position in lanes.items()}
    for lane, position in reached.items():
        if not any(each == lane and start <= position <= end for each, start, end in ranges):
            place = f"{position} of lane {lane}"
            raise Interrupted(f"the server is at {place}, which was not asked for")
    moved = [(lane, reached.get(lane, start), end) for lane, start, end in ranges]
    return [(lane, start, end) for lane, start, end in moved if start < end]


class QueueReading:
    """Some ranges of one queue, as record batches; a connection that breaks is resumed."""

    def __init__(
        self, options: Options, columns: Sequence[Column], place: tuple[str, int], split: Split
    ) -> None:
        self._options = options
        self._schema = to_arrow(columns)
        self._queue, number = place
        self._left: Sequence[Range] = ()
        self._missing = 0
        self._body = {
            "queue": self._queue,
            "number": number,
            "columns": [column.name for column in columns],
            "partitions": None if options.partitions is None else list(options.partitions),
            "prefix": options.partition_prefix,
            "share": None if split.share is None else list(split.share),
            "inOrder": options.preserve_order,
            "batchRows": options.batch_rows,
            "payload": options.payload_format,
        }

    def batches(self, ranges: Sequence[Range]) -> Iterator[pa.RecordBatch]:
        failures = 0
        self._left = ranges
        while self._left:
            before = self._left
            try:
                yield from self._attempt()
            except Interrupted as error:
                failures = failures + 1 if self._left == before else 1
                if failures == ATTEMPTS:
                    raise
                log.warning("reading %r is resumed: %s", self._queue, error)
                time.sleep(pause(failures, error.retry_after))
        if self._missing:
            log.warning("%d messages of queue %r are gone", self._missing, self._queue)

    def _attempt(self) -> Iterator[pa.RecordBatch]:
        try:
            for batch, progress in self._stream(self._left):
                # Before the batch is given away: afterwards it must not be read again.
                self._left = remaining(self._left, progress["lanes"])
                self._note(progress.get("missing") or ())
                if batch.num_rows:
                    yield fit(batch, self._schema)
        except Refused as error:
            if self._options.fail_on_data_loss or not error.lost:
                raise
            log.warning("queue %r is skipped: %s", self._queue, error)
            self._left = ()
        if self._left:
            raise Interrupted(f"the server stopped before the end of {self._queue!r}")

    def _stream(self, ranges: Sequence[Range]) -> Iterator[tuple[pa.RecordBatch, dict[str, Any]]]:
        body = json.dumps({**self._body, "ranges": [list(each) for each in ranges]}).encode()
        server = Server(self._options)
        with server.stream("POST", f"{JOURNAL}/read", body, "application/json") as response:
            reader = pa.ipc.open_stream(response)
            while True:
                try:
                    found = reader.read_next_batch_with_custom_metadata()
                except StopIteration:
                    break
                told = json.loads(found.custom_metadata[b"skep"])
                if "error" in told:
                    raise _told_error(told)
                yield found.batch, told

    def _note(self, missing: Iterable[Sequence[int]]) -> None:
        for lane, start, end in missing:
            if self._options.fail_on_data_loss:
                raise DataLost(
                    f"messages {start} to {end - 1} of lane {lane} of queue {self._queue!r} are "
                    "gone: retention removed them before they were read. Keep messages longer, or "
                    "read more often; with failOnDataLoss=false they are passed over"
                )
            self._missing += end - start


def fit(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The batch with exactly these types."""
    return batch if batch.schema.equals(schema) else batch.cast(schema)


def read_split(
    options: Options, columns: Sequence[Column], split: InputPartition
) -> Iterator[pa.RecordBatch]:
    """What a task reads. Without anything to read, Spark makes up a partition of its own."""
    if not hasattr(split, "pieces"):
        return
    # Not by its class, of which there may be two where this module came by value.
    mine = cast(Split, split)
    for place, pieces in groupby(mine.pieces, lambda piece: (piece.queue, piece.number)):
        reading = QueueReading(options, columns, place, mine)
        yield from reading.batches([(each.lane, each.start, each.end) for each in pieces])


# Batches.


class BatchReader(DataSourceReader):
    """What is between two positions when it is planned. Spark plans a DataFrame once."""

    def __init__(self, options: Options, columns: Sequence[Column]) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> Sequence[InputPartition]:
        options = self._options
        found = self._look(options.starting_timestamp)
        start, end = self._start(found), self._end(found)
        return plan(pieces_between(start, end, strict=options.fail_on_data_loss), options)

    def _look(self, moment: int | None) -> Mapping[str, Any]:
        """How far the queues go, and where in them a moment is."""
        body = {**self._options.selection, "at": moment}
        found: Mapping[str, Any] = Server(self._options).ask("POST", f"{JOURNAL}/heads", body)
        return found

    def _start(self, found: Mapping[str, Any]) -> Position:
        options = self._options
        if options.starting_timestamp is not None:
            return self._start_at(found)
        start = self._place(found, options.starting_offsets or "earliest")
        first = check_position(found["first"])
        # What a position does not name is read from where it is kept.
        return {**start, "queues": {**first["queues"], **start["queues"]}}

    def _end(self, found: Mapping[str, Any]) -> Position:
        options = self._options
        if options.ending_timestamp is not None:
            return check_position(self._look(options.ending_timestamp)["at"])
        return self._place(found, options.ending_offsets or "latest")

    def _place(self, found: Mapping[str, Any], offsets: str | Position) -> Position:
        if isinstance(offsets, dict):
            return offsets
        if offsets == "group":
            return self._place_of_group()
        return check_position(found["first" if offsets == "earliest" else "heads"])

    def _place_of_group(self) -> Position:
        group = self._options.group
        try:
            answer = Server(self._options).ask("GET", f"{JOURNAL}/groups/{_segment(group)}")
        except Refused as error:
            if error.status != 404:
                raise
            # To read everything instead would be wrong for a name that is misspelt or that pops.
            raise InvalidOption(
                "consumerGroup",
                f"must name a group that reads as a stream, and {group!r} never has; groups that "
                "pop have a place in each partition, and none in the whole",
            ) from None
        return check_position(answer["position"])

    def _start_at(self, found: Mapping[str, Any]) -> Position:
        start, heads = check_position(found["at"]), check_position(found["heads"])
        strategy = self._options.starting_offsets_by_timestamp_strategy
        if strategy == "error" and not rows_between(start, heads):
            raise InvalidOption(
                "startingTimestamp",
                "is later than all messages; with startingOffsetsByTimestampStrategy=latest that "
                "is no error",
            )
        return start

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_split(self._options, self._columns, partition)


# Streams.


class Cursor:
    """Tells the server in the background how far a group is; the newest place wins.

    The truth is in the checkpoint: this is for those who look at the lag.
    """

    def __init__(self, options: Options) -> None:
        self._options = options
        self._path = f"{JOURNAL}/groups/{_segment(options.group)}/position"
        self._changed = threading.Condition()
        self._wanted: Position | None = None
        self._busy = False
        threading.Thread(target=self._run, daemon=True).start()

    def move(self, position: Position) -> None:
        with self._changed:
            self._wanted = position
            self._changed.notify_all()

    def flush(self, seconds: float = 5.0) -> None:
        """Wait until it is told, but not for ever."""
        with self._changed:
            self._changed.wait_for(lambda: self._wanted is None and not self._busy, seconds)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._wanted is not None)
                position, self._wanted, self._busy = self._wanted, None, True
            try:
                # Told in any case, so that the start is no longer kept.
                body = {"position": position, "stay": not self._options.commit_cursor}
                Server(self._options).ask("POST", self._path, body)
            except Exception as error:
                log.warning("group %r is not moved: %s", self._options.group, error)
            with self._changed:
                self._busy = False
                self._changed.notify_all()


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The driver's side of a stream. Tasks have a copy, of which only ``read`` is used."""

    def __init__(self, options: Options, columns: Sequence[Column]) -> None:
        self._options = options
        self._columns = columns
        self._initial: Position | None = None
        self._heads: Position | None = None
        self._target: Position | None = None
        self._told: Position | None = None
        self._cursor: Cursor | None = None
        self._last_batch = time.monotonic()

    # Where it starts, and how far it may go.

    def initialOffset(self) -> Position:  # noqa: N802 - Spark's names, here and below
        """Spark asks several times, also after a crash, and loses messages if the answer changes.

        So the server decides once, and keeps it for the group until the stream has moved on.
        """
        if self._initial is None:
            path = f"{JOURNAL}/groups/{_segment(self._options.group)}"
            body = {**self._options.selection, "start": self._start()}
            answer = Server(self._options).ask("PUT", path, body)
            self._initial = check_position(answer["position"])
        return self._initial

    def _start(self) -> str | Position:
        options = self._options
        if options.starting_timestamp is None:
            return options.starting_offsets or "latest"
        strategy = options.starting_offsets_by_timestamp_strategy
        return {"at": options.starting_timestamp, "otherwise": strategy}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Anything but ``ReadAllAvailable`` comes back when the options are to be followed."""
        options = self._options
        if options.max_offsets_per_trigger is not None:
            return ReadMaxRows(options.max_offsets_per_trigger)
        if options.max_bytes_per_trigger is not None:
            return ReadMaxBytes(options.max_bytes_per_trigger)
        if options.min_offsets_per_trigger is not None:
            return ReadMinRows(options.min_offsets_per_trigger)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = check_position(self._look(None, limited=False)["heads"])

    def latestOffset(  # noqa: N802
        self, start: Position | None = None, limit: ReadLimit | None = None
    ) -> Position:
        """Where the next batch ends; ``start`` itself if there is to be none yet.

        Spark 4.0 and 4.1 say neither where it starts nor how much it may have.
        """
        if start is None:
            return check_position(self._look(None, limited=False)["heads"])
        self._tell(start)
        limited = limit is not None and type(limit).__name__ != "ReadAllAvailable"
        found = self._look(start, limited=limited)
        self._heads = check_position(found["heads"])
        end = check_position(found["end"])
        if self._target is not None:
            end = check_position(up_to(end, self._target, start))
        elif limited and not self._is_enough(start):
            return start
        if not rows_between(start, end):
            if self._target is not None and self._cursor is not None:
                # The stream ends now, and its process with it.
                self._cursor.flush()
            return start
        self._last_batch = time.monotonic()
        return end

    def reportLatestOffset(self) -> Position | None:  # noqa: N802
        return self._heads

    def _look(self, start: Position | None, *, limited: bool) -> dict[str, Any]:
        options = self._options
        # The first batch is to be safe soon, and what is available now waits for nobody.
        hurry = self._heads is None or self._target is not None
        body = {
            **options.selection,
            "after": start,
            "wait": 0 if start is None or hurry else options.poll_timeout,
            "maxRows": options.max_offsets_per_trigger if limited else None,
            "maxBytes": options.max_bytes_per_trigger if limited else None,
        }
        try:
            found: dict[str, Any] = self._heads_for(body)
        except Refused as error:
            if start is None or options.fail_on_data_loss or not error.mismatch:
                raise
            log.warning("queues are read from their beginning: %s", error)
            heads = self._heads_for({**body, "after": None, "wait": 0})["heads"]
            found = self._heads_for({**body, "after": known_part(start, heads), "wait": 0})
        return found

    def _heads_for(self, body: dict[str, Any]) -> dict[str, Any]:
        timeout = TIMEOUT + body["wait"] / 1000
        found: dict[str, Any] = Server(self._options).ask(
            "POST", f"{JOURNAL}/heads", body, timeout=timeout
        )
        return found

    def _is_enough(self, start: Position) -> bool:
        """Whether there are as many messages as there must be, or they have waited too long."""
        least = self._options.min_offsets_per_trigger
        if least is None or self._heads is None or rows_between(start, self._heads) >= least:
            return True
        left = self._options.max_trigger_delay / 1000 - (time.monotonic() - self._last_batch)
        if left > 0:
            # The server has something, so it does not make us wait.
            time.sleep(min(left, self._options.poll_timeout / 1000))
        return left <= 0

    # How far it is.

    def _tell(self, start: Position) -> None:
        """Where a batch starts, everything before it is safe in the checkpoint."""
        if start in (self._initial, self._told):
            return
        self._told = start
        self._cursor = self._cursor or Cursor(self._options)
        self._cursor.move(start)

    def commit(self, end: Position) -> None:
        self._tell(end)

    # What is read.

    def partitions(self, start: Position, end: Position) -> Sequence[InputPartition]:
        strict = self._options.fail_on_data_loss
        return plan(pieces_between(start, end, strict=strict), self._options)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_split(self._options, self._columns, partition)


# Views: what the server knows beside messages.

Rows = Iterator[Mapping[str, Any]]


@dataclass(frozen=True)
class View:
    columns: tuple[Column, ...]
    rows: Callable[[Server, str | None], Rows]
    """Of one queue, or of all."""


def _counts(prefix: str = "") -> tuple[Column, ...]:
    names = ("total", "pending", "processing", "completed", "failed", "dead_letter")
    return tuple(Column(name, "long", f"{prefix}{_camel(name)}") for name in names)


def _dead_letters(server: Server, queue: str | None) -> Rows:
    asked: dict[str, Any] = {"limit": 1000} if queue is None else {"limit": 1000, "queue": queue}
    while True:
        page = server.ask("GET", f"{API}/dlq?{urlencode(asked)}")
        yield from page["messages"]
        if page["next"] is None:
            return
        asked["before"] = page["next"]


def _consumers(server: Server, queue: str | None) -> Rows:
    rows = server.ask("GET", f"{API}/consumer-groups")
    yield from (row for row in rows if queue in (None, row["queueName"]))


def _pages(path: str, name: str) -> Callable[[Server, str | None], Rows]:
    """The rows of a list that is read by offset."""

    def rows(server: Server, queue: str | None) -> Rows:
        asked: dict[str, Any] = {} if queue is None else {"queue": queue}
        offset, limit = 0, 10_000
        while True:
            query = urlencode({**asked, "limit": limit, "offset": offset})
            page = server.ask("GET", f"{API}/resources/{path}?{query}")[name]
            yield from page
            if len(page) < limit:
                return
            offset += limit

    return rows


def _stats(server: Server, queue: str | None) -> Rows:
    rows = _pages("queues", "queues")(server, None)
    yield from (row for row in rows if queue in (None, row["name"]))


def _latencies(server: Server, queue: str | None) -> Rows:
    """A row for each bucket, as far back as the server knows."""
    asked: dict[str, Any] = {"from": "1970-01-01T00:00:00Z"}
    if queue is not None:
        asked["queue"] = queue
    while True:
        page = server.ask("GET", f"{API}/analytics/latencies?{urlencode(asked)}")
        for row in page["series"]:
            for seconds, messages in row["buckets"]:
                yield {**row, "seconds": seconds, "messages": messages}
        if page["next"] is None:
            return
        asked["from"] = page["next"]


VIEWS = {
    "dead-letters": View(
        (
            Column("queue", source="queue"),
            Column("partition", source="partition"),
            Column("offset", "long", "offset"),
            Column("message_id", source="id"),
            Column("transaction_id", source="transactionId"),
            Column("trace_id", source="traceId"),
            Column("producer", source="producerSub"),
            Column("created_at", "timestamp", "createdAt"),
            Column("payload", source="data"),
            Column("number", "long", "number"),
            Column("consumer_group", source="consumerGroup"),
            Column("error", source="errorMessage"),
            Column("attempts", "long", "attempts"),
            Column("failed_at", "timestamp", "failedAt"),
        ),
        _dead_letters,
    ),
    "consumers": View(
        (
            Column("consumer_group", source="name"),
            Column("queue", source="queueName"),
            Column("members", "long", "members"),
            Column("partitions", "long", "partitions"),
            Column("leased_partitions", "long", "leasedPartitions"),
            Column("partitions_with_lag", "long", "partitionsWithLag"),
            Column("lag", "long", "totalLag"),
            Column("lag_seconds", "double", "maxTimeLag"),
            Column("oldest_at", "timestamp", "oldestAt"),
        ),
        _consumers,
    ),
    "partitions": View(
        (
            Column("queue", source="queue"),
            Column("partition", source="name"),
            Column("partition_id", source="id"),
            *_counts(),
            Column("created_at", "timestamp", "createdAt"),
            Column("oldest_at", "timestamp", "oldestMessage"),
            Column("newest_at", "timestamp", "newestMessage"),
        ),
        _pages("partitions", "partitions"),
    ),
    "stats": View(
        (
            Column("queue", source="name"),
            Column("namespace", source="namespace"),
            Column("task", source="task"),
            Column("partitions", "long", "partitions"),
            Column("groups", "long", "groups"),
            *_counts("messages."),
            Column("consumed", "long", "consumed"),
            Column("created_at", "timestamp", "createdAt"),
        ),
        _stats,
    ),
    "latencies": View(
        (
            Column("queue", source="queue"),
            Column("consumer_group", source="consumerGroup"),
            Column("begins_at", "timestamp", "beginsAt"),
            Column("seconds", "double", "seconds"),
            Column("messages", "long", "messages"),
        ),
        _latencies,
    ),
}


class ViewReader(DataSourceReader):
    """A view of all queues, or of those that are asked for, as it is when it is read."""

    def __init__(self, options: Options, columns: Sequence[Column]) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> Sequence[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        rows: list[Mapping[str, Any]] = []
        for row in self._rows():
            rows.append(row)
            if len(rows) == self._options.batch_rows:
                yield self._batch(rows)
                rows = []
        if rows:
            yield self._batch(rows)

    def _rows(self) -> Rows:
        server, view = Server(self._options), VIEWS[self._options.view]
        for queue in self._options.queue or (None,):
            for row in view.rows(server, queue):
                if self._is_asked_for(row):
                    yield row

    def _is_asked_for(self, row: Mapping[str, Any]) -> bool:
        pattern = self._options.queue_pattern
        (column,) = (each for each in VIEWS[self._options.view].columns if each.name == "queue")
        return pattern is None or bool(re.fullmatch(pattern, row[column.source]))

    def _batch(self, rows: Sequence[Mapping[str, Any]]) -> pa.RecordBatch:
        schema = to_arrow(self._columns)
        arrays = [
            pa.array([_value(row, column) for row in rows], type_)
            for column, type_ in zip(self._columns, schema.types, strict=True)
        ]
        return pa.record_batch(arrays, schema=schema)


def _value(row: Mapping[str, Any], column: Column) -> Any:
    if column.source == "data":
        return _payload(row, column.kind)
    value: Any = row
    for name in column.source.split("."):
        value = value[name]
    if column.kind == "timestamp" and value is not None:
        return datetime.fromisoformat(value)
    return value


def _payload(row: Mapping[str, Any], kind: str) -> str | bytes | None:
    """A payload that is JSON came as part of the answer; null for who may not see payloads."""
    if "data" not in row:
        return None
    if row["encoding"] == "base64":
        data = b64decode(row["data"])
        return data if kind == "binary" else data.decode(errors="replace")
    text = json.dumps(row["data"], ensure_ascii=False, separators=(",", ":"))
    return text.encode() if kind == "binary" else text


# Writing.

WRITTEN = ("payload", "queue", "partition", "transaction_id", "trace_id")
IGNORED = {"offset", "message_id", "producer", "created_at", "lane", "position"}
"""What a queue gives and does not take, so that what was read can be written."""


@dataclass(frozen=True)
class Staged(WriterCommitMessage):
    """What a task has staged, under which name; the driver's side knows nothing else."""

    app: str = ""
    version: int | None = None
    stage: str = ""
    chunks: int = 0
    rows: int = 0
    checkpoint: str | None = None


def check_written(options: Options, schema: StructType) -> None:
    """Refuse a DataFrame that is not one of messages."""
    types = {_written_name(options, each.name): each.dataType for each in schema.fields}
    unknown = sorted(set(types) - set(WRITTEN) - IGNORED)
    if unknown:
        raise InvalidColumns(
            f"there is no place for {', '.join(unknown)}: put everything in one column payload, "
            "for example with to_json(struct(...))"
        )
    if "payload" not in types:
        raise InvalidColumns("there must be a column payload")
    if not isinstance(types["payload"], StringType | BinaryType):
        kind = types["payload"].simpleString()
        raise InvalidColumns(f"payload must be a string or binary, not {kind}: use to_json")
    for name in WRITTEN[1:]:
        if name in types and not isinstance(types[name], StringType):
            raise InvalidColumns(f"{name} must be a string, not {types[name].simpleString()}")
    if options.queue is None and "queue" not in types:
        raise InvalidOption("queue", f"is missing: name one, or have a column queue{_LOST}")
    if options.guarantee == "idempotent" and "transaction_id" not in types:
        raise InvalidColumns("guarantee=idempotent needs a column transaction_id")


def _written_name(options: Options, name: str) -> str:
    """A column may have the transaction id under another name."""
    return "transaction_id" if name == options.transaction_id else name


def to_messages(options: Options, batch: pa.RecordBatch) -> pa.RecordBatch:
    """The columns that are written. A queue or partition in the options wins over a column."""
    columns = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        written = _written_name(options, name)
        if written in WRITTEN and not (written == "queue" and options.queue):
            is_binary = pa.types.is_binary(column.type) or pa.types.is_large_binary(column.type)
            columns[written] = column.cast(pa.binary() if is_binary else pa.string())
    if options.partition is not None:
        columns["partition"] = pa.repeat(pa.scalar(options.partition), batch.num_rows)
    return pa.RecordBatch.from_pydict(columns)


def chunks_of(batches: Iterable[pa.RecordBatch], size: int) -> Iterator[list[pa.RecordBatch]]:
    """Batches cut and gathered so that each chunk has at most ``size`` bytes, but for one row."""
    chunk: list[pa.RecordBatch] = []
    gathered = 0
    for batch in batches:
        for part in _slices(batch, size):
            if chunk and gathered + part.nbytes > size:
                yield chunk
                chunk, gathered = [], 0
            chunk.append(part)
            gathered += part.nbytes
    if chunk:
        yield chunk


def _slices(batch: pa.RecordBatch, size: int) -> Iterator[pa.RecordBatch]:
    """Halves of halves, because one payload may be as large as all others together."""
    if batch.nbytes <= size or batch.num_rows <= 1:
        if batch.num_rows:
            yield batch
        return
    middle = batch.num_rows // 2
    yield from _slices(batch.slice(0, middle), size)
    yield from _slices(batch.slice(middle), size)


def to_stream(batches: Sequence[pa.RecordBatch]) -> bytes:
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, batches[0].schema) as writer:
        for batch in batches:
            writer.write_batch(batch)
    return bytes(out.getvalue())


class Sink:
    """What batches and streams have in common when they write."""

    def __init__(self, options: Options) -> None:
        self._options = options

    def write(self, batches: Iterator[pa.RecordBatch], app: str, version: int | None) -> Staged:
        messages = (to_messages(self._options, batch) for batch in batches)
        if self._options.guarantee != "exactly-once":
            return self._push(messages)
        # A name of its own for each attempt: two of them never mix, not even after a restart.
        stage, chunks, rows = uuid4().hex, 0, 0
        for chunk in chunks_of(messages, CHUNK_BYTES):
            self._stage(app, version, stage, chunks, to_stream(chunk))
            chunks += 1
            rows += sum(batch.num_rows for batch in chunk)
        return Staged(app, version, stage, chunks, rows)

    def _stage(self, app: str, version: int | None, stage: str, chunk: int, data: bytes) -> None:
        asked: dict[str, Any] = {"app": app, "stage": stage, "chunk": chunk}
        if version is not None:
            asked["version"] = version
        if self._options.queue is not None:
            asked["queue"] = self._options.queue[0]
        path = f"{JOURNAL}/stage?{urlencode(asked)}"
        Server(self._options).send("POST", path, data, ARROW)

    def _push(self, batches: Iterable[pa.RecordBatch]) -> Staged:
        """Push as they come. They are seen at once, and again if the task is repeated."""
        server, rows = Server(self._options), 0
        for chunk in chunks_of(batches, CHUNK_BYTES // 2):
            for batch in chunk:
                for at in range(0, batch.num_rows, PUSHED_ROWS):
                    items = [self._item(row) for row in batch.slice(at, PUSHED_ROWS).to_pylist()]
                    server.ask("POST", f"{API}/push", {"items": items})
                    rows += len(items)
        return Staged(rows=rows)

    def _item(self, row: Mapping[str, Any]) -> dict[str, Any]:
        if self._options.guarantee == "idempotent" and row["transaction_id"] is None:
            raise InvalidColumns("guarantee=idempotent needs a transaction_id in every row")
        if row["payload"] is None:
            raise InvalidColumns("payload must not be null")
        payload = row["payload"]
        data = payload.encode() if isinstance(payload, str) else payload
        # In base64 it arrives byte for byte, whether or not it is JSON.
        item = {"payload": b64encode(data).decode(), "encoding": "base64"}
        if self._options.queue is not None:
            item["queue"] = self._options.queue[0]
        rest = {_camel(name): row[name] for name in WRITTEN[1:] if row.get(name) is not None}
        return item | rest

    def commit(self, messages: Iterable[WriterCommitMessage | None]) -> None:
        body = _to_commit(messages)
        if body is None:
            return
        path = f"{JOURNAL}/commit"
        done = Server(self._options).ask("POST", path, body, timeout=COMMIT_TIMEOUT)
        if done["duplicate"]:
            log.info("version %s of %s was written before", body["version"], body["app"])

    def abort(self, messages: Iterable[WriterCommitMessage | None]) -> None:
        """Drop what is staged. What was committed stays: Spark may not have heard of it."""
        body = _to_commit(messages)
        if body is None:
            return
        try:
            Server(self._options).ask("POST", f"{JOURNAL}/abort", body)
        except Exception as error:
            # The server drops it later by itself; what Spark failed of is to be seen.
            log.warning("what was staged for %s is not dropped yet: %s", body["app"], error)


def _to_commit(messages: Iterable[WriterCommitMessage | None]) -> dict[str, Any] | None:
    """The stages of those tasks that have finished, if they have any."""
    finished = [cast(Staged, each) for each in messages if each is not None]
    staged = [each for each in finished if each.chunks]
    if not staged:
        return None
    return {
        "app": staged[0].app,
        "version": staged[0].version,
        "checkpoint": staged[0].checkpoint,
        "stages": [
            {"stage": each.stage, "chunks": each.chunks, "rows": each.rows} for each in staged
        ],
    }


class BatchWriter(DataSourceArrowWriter):
    def __init__(self, options: Options) -> None:
        self._sink = Sink(options)
        self._app = options.txn_app_id or uuid4().hex
        self._version = options.txn_version

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._sink.write(iterator, self._app, self._version)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self._sink.commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self._sink.abort(messages)


class StreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, options: Options) -> None:
        self._options = options
        self._sink = Sink(options)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Spark does not say which query and epoch this is, but its task knows."""
        from pyspark import TaskContext

        context = TaskContext.get()
        assert context is not None
        query = context.getLocalProperty("sql.streaming.queryId")
        epoch = context.getLocalProperty("streaming.sql.batchId")
        if query is None or epoch is None:
            raise RuntimeError("this task is not one of a streaming query")
        staged = self._sink.write(iterator, self._options.txn_app_id or query, int(epoch))
        about = f"{query} {self._options.checkpoint_location or ''}"
        return replace(staged, checkpoint=sha256(about.encode()).hexdigest())

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self._sink.commit(messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        self._sink.abort(messages)


# The source.


class DefaultSource(DataSource):
    """``format("skep")``"""

    @classmethod
    def name(cls) -> str:
        return "skep"

    def _parsed(self, schema: StructType | None = None) -> Options:
        if pa is None:
            raise RuntimeError("skep's source needs pyarrow: pip install pyarrow")
        given = self.options or ({} if schema is None else options_of_table(schema))
        return parse_options(given)

    def schema(self) -> StructType:
        schema = to_schema(columns_of(self._parsed()))
        return to_table(schema, self.options) if "provider" in self.options else schema

    def reader(self, schema: StructType) -> DataSourceReader:
        options = self._parsed(schema)
        check_reading(options, stream=False)
        columns = project(options, schema)
        if options.view != "messages":
            return ViewReader(options, columns)
        return BatchReader(options, columns)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        options = self._parsed(schema)
        check_reading(options, stream=True)
        return StreamReader(options, project(options, schema))

    def writer(self, schema: StructType, overwrite: bool) -> BatchWriter:
        options = self._parsed(schema)
        check_writing(options, overwrite=overwrite, stream=False)
        check_written(options, schema)
        return BatchWriter(options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> StreamWriter:  # noqa: N802
        options = self._parsed(schema)
        if DataSourceStreamArrowWriter is object:
            raise RuntimeError("to write streams needs Spark 4.1 or newer")
        check_writing(options, overwrite=overwrite, stream=True)
        check_written(options, schema)
        return StreamWriter(options)


def register(spark: SparkSession) -> None:
    """Make the source known where it is not installed: on a cluster, on a Connect server."""
    from pyspark import cloudpickle

    module = sys.modules[__name__]
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    try:
        spark.dataSource.register(DefaultSource)
    finally:
        cloudpickle.unregister_pickle_by_value(module)  # type: ignore[no-untyped-call]
