"""Where a server may listen, and where it refuses to start."""

from typing import Any

import pytest

from skep.errors import Invalid
from skep.http.auth.exposure import check_exposure
from skep.settings import Settings
from tests.support.http.token_signing import SECRET

CERTIFICATE: dict[str, Any] = {"tls_certificate": "server.pem", "tls_key": "server.key"}
AUTHENTICATED: dict[str, Any] = {"jwt_secret": SECRET}
REACHABLE = ["0.0.0.0", "::", "", "10.0.0.7", "skep.example", "localhost.example", "127.1"]
LOOPBACK = ["127.0.0.1", "127.8.8.8", "::1", "localhost"]


@pytest.mark.parametrize("host", LOOPBACK)
@pytest.mark.parametrize("authentication", [{}, AUTHENTICATED], ids=["open", "guarded"])
def test_a_server_may_listen_where_only_this_machine_reaches_it(
    host: str, authentication: dict[str, Any]
) -> None:
    check_exposure(Settings(host=host, **authentication))


def test_a_server_listens_where_only_this_machine_reaches_it_unless_told_otherwise() -> None:
    check_exposure(Settings())

    assert Settings().host == "127.0.0.1"


@pytest.mark.parametrize("host", REACHABLE)
@pytest.mark.parametrize("tls", [{}, CERTIFICATE], ids=["clear", "TLS"])
def test_a_server_that_asks_nobody_who_he_is_does_not_start_where_others_reach_it(
    host: str, tls: dict[str, Any]
) -> None:
    with pytest.raises(Invalid, match=r"api_keys, jwt_secret.* or set allow_anonymous") as refused:
        check_exposure(Settings(host=host, **tls))

    assert refused.value.field == "host"


@pytest.mark.parametrize("host", REACHABLE)
def test_a_server_for_everybody_starts_if_that_is_said(host: str) -> None:
    check_exposure(Settings(host=host, allow_anonymous=True))


def test_a_proxy_in_front_lets_others_reach_this_machine() -> None:
    with pytest.raises(Invalid, match="without authentication"):
        check_exposure(Settings(behind_tls_proxy=True))


@pytest.mark.parametrize("host", REACHABLE)
def test_tokens_do_not_travel_in_the_clear(host: str) -> None:
    with pytest.raises(Invalid, match=r"tls_certificate and tls_key, or behind_tls_proxy"):
        check_exposure(Settings(host=host, **AUTHENTICATED))


@pytest.mark.parametrize("secrecy", [CERTIFICATE, {"behind_tls_proxy": True}])
def test_a_server_that_asks_and_keeps_it_secret_may_be_reached_by_others(
    secrecy: dict[str, Any],
) -> None:
    check_exposure(Settings(host="0.0.0.0", **AUTHENTICATED, **secrecy))


def test_nobody_can_be_asked_and_not_be_asked() -> None:
    with pytest.raises(Invalid, match="allow_anonymous: conflicts"):
        check_exposure(Settings(allow_anonymous=True, **AUTHENTICATED))


@pytest.mark.parametrize(
    ("given", "missing"), [("tls_certificate", "tls_key"), ("tls_key", "tls_certificate")]
)
def test_a_certificate_and_its_key_belong_together(given: str, missing: str) -> None:
    half: dict[str, Any] = {given: "server.pem"}

    with pytest.raises(Invalid) as refused:
        check_exposure(Settings(**half))

    assert refused.value.field == missing
