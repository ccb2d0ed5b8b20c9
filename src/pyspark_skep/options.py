"""The options of a reader or a writer: parsed, and checked before any request is sent."""

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import Field, dataclass, field, fields
from datetime import UTC, datetime
from difflib import get_close_matches
from hashlib import sha256
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from pyspark_skep.errors import InvalidOption
from pyspark_skep.position import JournalPosition, check_position

DEFAULT_URL = "http://127.0.0.1:6632"


# Parsers return the value of an option, or raise ValueError with a reason that follows its name.


def _url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be a URL that begins with http:// or https://")
    if parts.username is not None or parts.query or parts.fragment:
        raise ValueError("must be a URL without user, query or fragment")
    return text.rstrip("/")


def _text(text: str) -> str:
    if not text:
        raise ValueError("must not be empty")
    return text


def _file(text: str) -> str:
    if not Path(text).is_file():
        raise ValueError(f"must name a file; {text!r} is not a file on this machine")
    return text


def _variable(text: str) -> str:
    if not os.environ.get(text):
        raise ValueError(f"must name an environment variable; {text!r} is not set on this machine")
    return text


def _names(text: str) -> tuple[str, ...]:
    try:
        values = json.loads(text) if text.lstrip().startswith("[") else text.split(",")
    except ValueError:
        values = []
    names = [value.strip() if isinstance(value, str) else "" for value in values]
    if not all(names) or not names:
        raise ValueError("must be a comma-separated list or a JSON array of names")
    return tuple(sorted(set(names)))


def _pattern(text: str) -> str:
    try:
        re.compile(_text(text))
    except re.error as error:
        raise ValueError(f"must be a regular expression: {error}") from None
    return text


def _integer(*, minimum: int) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not text.strip().isdecimal() or int(text) < minimum:
            raise ValueError(f"must be an integer of at least {minimum}, not {text!r}")
        return int(text)

    return parse


def _flag(text: str) -> bool:
    if text.lower() not in ("true", "false"):
        raise ValueError(f"must be true or false, not {text!r}")
    return text.lower() == "true"


def _milliseconds(text: str) -> int:
    match = re.fullmatch(r"\s*(\d+)\s*(ms|s|m|h|)\s*", text)
    if match is None:
        raise ValueError(f"must be a duration such as 500ms, 10s, 15m or 1h, not {text!r}")
    return int(match[1]) * {"s": 1000, "m": 60_000, "h": 3_600_000}.get(match[2], 1)


def _timestamp(text: str) -> int:
    """Return milliseconds since 1970; a time without a zone is in UTC."""
    if text.strip().isdecimal():
        return int(text)
    try:
        instant = datetime.fromisoformat(text.strip())
    except ValueError:
        raise ValueError(
            f"must be an ISO 8601 time or milliseconds since 1970, not {text!r}"
        ) from None
    instant = instant if instant.tzinfo else instant.replace(tzinfo=UTC)
    return round(instant.timestamp() * 1000)


def _offsets(text: str) -> str | JournalPosition:
    word = text.strip().lower()
    if word in ("earliest", "latest", "group"):
        return word
    try:
        return check_position(json.loads(text))
    except ValueError:
        raise ValueError(
            "must be earliest, latest, group, or a JSON position as returned by "
            "POST /api/v1/journal/heads"
        ) from None


def _one_of(*words: str) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text.strip().lower() not in words:
            raise ValueError(f"must be one of {', '.join(words)}, not {text!r}")
        return text.strip().lower()

    return parse


def _option(parse: Callable[[str], Any], default: Any = None, *, in_repr: bool = True) -> Any:
    return field(default=default, repr=in_repr, metadata={"parse": parse})


_COUNT = _integer(minimum=1)


@dataclass(frozen=True)
class Options:
    """The options of a reader or a writer; users write the names in camel case."""

    url: str = _option(_url, DEFAULT_URL)
    token: str | None = _option(_text, in_repr=False)
    token_file: str | None = _option(_file)
    token_env: str | None = _option(_variable)
    queue: tuple[str, ...] | None = _option(_names)
    queue_pattern: str | None = _option(_pattern)
    partitions: tuple[str, ...] | None = _option(_names)
    partition_prefix: str | None = _option(_text)
    starting_offsets: str | JournalPosition | None = _option(_offsets)  # noqa: RUF009 - frozen
    ending_offsets: str | JournalPosition | None = _option(_offsets)  # noqa: RUF009 - frozen
    starting_timestamp: int | None = _option(_timestamp)
    ending_timestamp: int | None = _option(_timestamp)
    starting_offsets_by_timestamp_strategy: str = _option(_one_of("error", "latest"), "error")
    consumer_group: str | None = _option(_text)
    commit_cursor: bool = _option(_flag, True)
    max_offsets_per_trigger: int | None = _option(_COUNT)
    max_bytes_per_trigger: int | None = _option(_COUNT)
    min_offsets_per_trigger: int | None = _option(_COUNT)
    max_trigger_delay: int = _option(_milliseconds, 15 * 60_000)
    min_partitions: int | None = _option(_COUNT)
    max_records_per_partition: int | None = _option(_COUNT)
    preserve_order: bool = _option(_flag, False)
    poll_timeout: int = _option(_milliseconds, 500)
    fail_on_data_loss: bool = _option(_flag, True)
    view: str = _option(
        _one_of("messages", "dead-letters", "consumers", "partitions", "stats", "latencies"),
        "messages",
    )
    payload_format: str = _option(_one_of("text", "binary"), "text")
    batch_rows: int = _option(_COUNT, 8192)
    partition: str | None = _option(_text)
    transaction_id: str = _option(_text, "transaction_id")
    guarantee: str = _option(_one_of("exactly-once", "idempotent", "at-least-once"), "exactly-once")
    txn_app_id: str | None = _option(_text)
    txn_version: int | None = _option(_integer(minimum=0))
    checkpoint_location: str | None = _option(_text)
    """Spark's own option: distinguishes a query from one that runs on a copy of its checkpoint."""

    @property
    def selection(self) -> dict[str, Any]:
        """The queues, as fields of a journal request."""
        queues = None if self.queue is None else list(self.queue)
        return {"queues": queues, "pattern": self.queue_pattern}

    @property
    def group(self) -> str:
        """The reader group of a stream; the default depends only on the queues and partitions."""
        if self.consumer_group is not None:
            return self.consumer_group
        scope = json.dumps([self.selection, self.partitions, self.partition_prefix])
        return f"spark-{sha256(scope.encode()).hexdigest()[:12]}"

    def secret(self) -> str | None:
        """Return the token; a file or variable is read at each use, so no plan contains it."""
        try:
            if self.token_file is not None:
                return Path(_file(self.token_file)).read_text().strip()
            if self.token_env is not None:
                return os.environ[_variable(self.token_env)]
        except ValueError as error:
            name = "tokenEnv" if self.token_file is None else "tokenFile"
            raise InvalidOption(name, str(error)) from None
        return self.token or os.environ.get("SKEP_TOKEN")


def to_camel(name: str) -> str:
    return re.sub("_([a-z])", lambda match: match[1].upper(), name)


FIELDS = {to_camel(option.name).lower(): option for option in fields(Options)}
"""The fields of ``Options`` by the option's name in lower case."""

# Spark adds the argument of load and save, the query's own options, and the properties of a table,
# the latter a second time with the prefix "option.".
_ADDED_BY_SPARK = re.compile(
    r"path|paths|queryname|owner|provider|location|comment|external"
    r"|is_managed_location|serialization\.format|option\..*"
)


def parse_options(given: Mapping[str, str]) -> Options:
    """Parse options, with names in any case; raise ``InvalidOption`` for the first bad one."""
    values: dict[str, Any] = {"url": os.environ.get("SKEP_URL") or DEFAULT_URL}
    for key, text in given.items():
        option = FIELDS.get(key.lower())
        if option is not None:
            values[option.name] = _parse(option, text)
        elif not _ADDED_BY_SPARK.fullmatch(key.lower()):
            raise InvalidOption(key, f"is unknown{_suggestion(key)}")
    options = Options(**values)
    tokens = (options.token, options.token_file, options.token_env)
    if sum(token is not None for token in tokens) > 1:
        raise InvalidOption("token", "must be given only once: as token, tokenFile or tokenEnv")
    return options


def _parse(option: Field[Any], text: str) -> Any:
    try:
        return option.metadata["parse"](text)
    except ValueError as error:
        raise InvalidOption(to_camel(option.name), str(error)) from None


def _suggestion(key: str) -> str:
    matches = get_close_matches(key.lower(), FIELDS, n=1)
    return f"; did you mean {to_camel(FIELDS[matches[0]].name)!r}?" if matches else ""


TABLE_HINT = " (a table created with a column list loses its options: create it without columns)"


def check_reading(options: Options, *, stream: bool) -> None:
    """Raise ``InvalidOption`` for a read without queues, or with contradicting options."""
    if options.queue is not None and options.queue_pattern is not None:
        raise InvalidOption("queue", "cannot be combined with queuePattern")
    if options.view != "messages":
        _check_view(options, stream=stream)
        return
    if options.queue is None and options.queue_pattern is None:
        raise InvalidOption("queue", f"is required, or queuePattern{TABLE_HINT}")
    for end in ("starting", "ending"):
        bounds = (getattr(options, f"{end}_offsets"), getattr(options, f"{end}_timestamp"))
        if None not in bounds:
            raise InvalidOption(f"{end}Offsets", f"cannot be combined with {end}Timestamp")
        if stream and end == "ending" and bounds != (None, None):
            raise InvalidOption("endingOffsets", "is for batch reads only: a stream has no end")


def _check_view(options: Options, *, stream: bool) -> None:
    if stream:
        raise InvalidOption("view", f"must be messages for a stream, not {options.view!r}")
    for name in ("partitions", "partition_prefix", "starting_offsets", "starting_timestamp"):
        if getattr(options, name) is not None:
            raise InvalidOption(
                to_camel(name), f"applies to messages, not to the view {options.view!r}"
            )


def check_writing(options: Options, *, overwrite: bool, stream: bool) -> None:
    """Raise ``InvalidOption`` for a write that overwrites, or with contradicting options."""
    if overwrite:
        raise InvalidOption("mode", "must be append: a queue is never overwritten")
    if options.queue is not None and len(options.queue) != 1:
        raise InvalidOption("queue", "must name one queue; to write to several, use a queue column")
    if stream and options.txn_version is not None:
        raise InvalidOption("txnVersion", "is for batch writes only: a stream uses its epoch")
    if not stream and (options.txn_app_id is None) != (options.txn_version is None):
        raise InvalidOption("txnAppId", "must be given together with txnVersion")
