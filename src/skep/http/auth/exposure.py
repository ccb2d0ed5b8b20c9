"""Whether the server may be where others can reach it."""

from skep.errors import Invalid
from skep.http.auth.loopback import is_loopback
from skep.http.auth.private_file import check_private
from skep.settings import Settings


def check_exposure(settings: Settings) -> None:
    """Refuse to start where anybody could do anything, or where secrets would go in the clear."""
    if bool(settings.tls_certificate) != bool(settings.tls_key):
        missing = "tls_key" if settings.tls_certificate else "tls_certificate"
        raise Invalid(missing, "is needed too: tls_certificate and tls_key belong together")
    if settings.tls_key:
        check_private("tls_key", settings.tls_key)
    if settings.authenticated:
        _check_secrecy(settings)
    else:
        _check_reach(settings)


def _check_secrecy(settings: Settings) -> None:
    if settings.allow_anonymous:
        raise Invalid(
            "allow_anonymous", "contradicts the keys or tokens that are set; leave out one of them"
        )
    if not (is_loopback(settings.host) or settings.tls_certificate or settings.behind_tls_proxy):
        raise Invalid(
            "host",
            f"{settings.host!r} can be reached by others, and tokens and messages would travel in "
            "the clear: set tls_certificate and tls_key, or behind_tls_proxy if a proxy in front "
            "of the server speaks TLS",
        )


def _check_reach(settings: Settings) -> None:
    # Through a proxy others come to a loopback address too.
    alone = is_loopback(settings.host) and not settings.behind_tls_proxy
    if not alone and not settings.allow_anonymous:
        raise Invalid(
            "host",
            f"{settings.host!r} can be reached by others, and nobody would have to say who he is: "
            "set api_keys, jwt_secret, jwt_public_key or jwt_jwks_url, listen on 127.0.0.1 without "
            "a proxy, or set allow_anonymous if everybody may do everything",
        )
