"""What a server can be told from outside."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self

from skep.errors import Invalid
from skep.model.quota import Quota

PREFIX = "SKEP_"
CLIENT = frozenset({"SKEP_URL", "SKEP_TOKEN"})
"""What the command line reads; a server ignores it."""
AUTHENTICATION = ("jwt_secret", "jwt_public_key", "jwt_jwks_url", "api_keys")
"""Each of these turns authentication on."""

QUOTAS = tuple(f"quota_{name}" for name in Quota.__struct_fields__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """One variable per field, ``SKEP_`` in front; a flag of ``skep serve`` wins over it."""

    store: str = field(default="skep-data", repr=False)
    """A directory, rocksdb:///path, postgresql://… or memory://; a URL may hold a password."""
    host: str = "127.0.0.1"
    port: int = 6632
    workers: int = 1
    """Processes that listen on the port; more than one need a store that they can share."""
    allow_anonymous: bool = False
    """Listen on an address that others can reach although nobody has to say who he is."""

    jwt_secret: str | None = field(default=None, repr=False)
    """For HS256, 32 bytes at least."""
    jwt_public_key: str | None = None
    """A PEM file, for RS256 or EdDSA."""
    jwt_jwks_url: str | None = None
    jwt_issuer: str | None = None
    jwt_audience: str | None = None
    jwt_clock_skew: int = 30
    jwt_roles_claim: str = "roles"
    api_keys: str | None = None
    """A file with the keys that ``skep key create`` makes."""
    tls_certificate: str | None = None
    tls_key: str | None = None
    behind_tls_proxy: bool = False
    """A proxy in front of the server speaks TLS, so the server itself need not."""
    cors_origins: str = ""
    """Origins such as https://ops.example, with commas between them."""

    encryption_keys: str | None = None
    """A file with a line ``id:64 hex digits`` per key; the first one encrypts."""
    backup_directory: str | None = None
    """Where backups may be made over HTTP; nowhere if it is not set."""
    body_bytes: int = 16 << 20
    payload_bytes: int = 4 << 20
    unfinished_bytes: int = 256 << 20
    """Request bodies that have not arrived completely, over all connections of a process."""
    receive_seconds: float = 10.0
    write_seconds: float = 30.0
    connections: int = 10_000
    quota_queues: int = 10_000
    quota_partitions: int = 1_000_000
    quota_groups: int = 50_000
    quota_readers: int = 1_000
    quota_staged_bytes: int = 4 << 30
    quota_requests: int = 10_000
    """Of each key or token that has no limit of its own; ``quota_requests`` is per second at each
    server process. 0 is no limit. Where nobody is authenticated there are no quotas."""
    sweep_seconds: float = 5.0
    log_level: str = "info"

    def __post_init__(self) -> None:
        # A secret that somebody forgot to fill in must not open the door.
        for each in fields(self):
            if each.default is None and getattr(self, each.name) == "":
                raise Invalid(each.name, "is empty; fill it in, or leave it out")

        for name in QUOTAS:
            if getattr(self, name) < 0:
                raise Invalid(name, f"must be 0 or more, not {getattr(self, name)}")

    @classmethod
    def from_env(cls, env: Mapping[str, str], **flags: Any) -> Self:
        """Read ``env``. A variable that begins like ours and is not is an error: it is misspelt."""
        kinds = {f"{PREFIX}{field.name.upper()}": field for field in fields(cls)}
        strangers = (
            {name for name in env if name.startswith(PREFIX) and not name.startswith("SKEP_TEST_")}
            - set(kinds)
            - CLIENT
        )
        if strangers:
            raise Invalid(", ".join(sorted(strangers)), "is not a setting; see skep serve --help")
        values = {
            field.name: _parse(name, env[name], type(field.default))
            for name, field in kinds.items()
            if env.get(name) or (name in env and field.default is None)
        }
        return cls(**values | {name: value for name, value in flags.items() if value is not None})

    @property
    def authenticated(self) -> bool:
        return any(getattr(self, name) for name in AUTHENTICATION)

    @property
    def quota(self) -> Quota:
        return Quota(**{name.removeprefix("quota_"): getattr(self, name) for name in QUOTAS})


def _parse(name: str, text: str, kind: type[Any]) -> Any:
    if kind is bool:
        if text.lower() not in ("true", "false", "1", "0", "yes", "no"):
            raise Invalid(name, f"must be true or false, not {text!r}")
        return text.lower() in ("true", "1", "yes")
    if kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            raise Invalid(name, f"must be a number, not {text!r}") from None
    return text
