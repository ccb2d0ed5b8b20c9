"""Whether the server may listen on an address that other machines can reach."""

from skep.errors import Invalid
from skep.http.auth.loopback import is_loopback
from skep.http.auth.private_file import check_private
from skep.settings import Settings


def check_exposure(settings: Settings) -> None:
    """Refuse to start without authentication, or without TLS, on an address that others can
    reach."""
    if bool(settings.tls_certificate) != bool(settings.tls_key):
        missing = "tls_key" if settings.tls_certificate else "tls_certificate"
        raise Invalid(missing, "is required: tls_certificate and tls_key must be set together")
    if settings.tls_key:
        check_private("tls_key", settings.tls_key)
    if settings.authenticated:
        _check_secrecy(settings)
    else:
        _check_reach(settings)


def _check_secrecy(settings: Settings) -> None:
    if settings.allow_anonymous:
        raise Invalid(
            "allow_anonymous", "conflicts with the configured keys or tokens; remove one of them"
        )
    if not (is_loopback(settings.host) or settings.tls_certificate or settings.behind_tls_proxy):
        raise Invalid(
            "host",
            f"{settings.host!r} can be reached by other machines, and data would be sent "
            "unencrypted: set tls_certificate and tls_key, or behind_tls_proxy if a proxy in front "
            "of the server terminates TLS",
        )


def _check_reach(settings: Settings) -> None:
    # Through a proxy, other machines reach a loopback address too.
    alone = is_loopback(settings.host) and not settings.behind_tls_proxy
    if not alone and not settings.allow_anonymous:
        raise Invalid(
            "host",
            f"{settings.host!r} can be reached by other machines without authentication: "
            "set api_keys, jwt_secret, jwt_public_key or jwt_jwks_url, listen on 127.0.0.1 without "
            "a proxy, or set allow_anonymous to allow unauthenticated access",
        )
