"""What a server makes of what it is told, and what it refuses to be told."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from skep.errors import Invalid
from skep.http.auth.api_key import create_key
from skep.http.auth.api_key_file import add_key
from skep.http.auth.authenticator import AllowAll, CredentialCheck, build_authenticator
from skep.model.quota import Quota
from skep.settings import Settings
from tests.support.http.token_signing import ED25519, SECRET, write_pem

# Whom it asks.


def test_without_keys_and_tokens_nobody_is_asked() -> None:
    assert isinstance(build_authenticator(Settings()), AllowAll)


def test_each_way_to_know_callers_guards_the_door(tmp_path: Path) -> None:
    keys = tmp_path / "keys.json"
    add_key(keys, create_key(["admin"]).entry)

    doors = [
        build_authenticator(Settings(jwt_secret=SECRET)),
        build_authenticator(Settings(jwt_public_key=write_pem(tmp_path / "key.pem", ED25519))),
        build_authenticator(Settings(jwt_jwks_url="https://id.example/keys")),
        build_authenticator(Settings(api_keys=str(keys))),
        build_authenticator(Settings(api_keys=str(keys), jwt_secret=SECRET)),
    ]

    assert all(isinstance(door, CredentialCheck) for door in doors)


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"jwt_secret": "short"}, "jwt_secret"),
        ({"jwt_secret": SECRET, "jwt_public_key": "key.pem"}, "jwt_public_key"),
        ({"jwt_secret": SECRET, "jwt_jwks_url": "https://id.example/keys"}, "jwt_jwks_url"),
        ({"jwt_public_key": "a.pem", "jwt_jwks_url": "https://id.example/keys"}, "jwt_jwks_url"),
        ({"jwt_public_key": "missing.pem"}, "jwt_public_key"),
        ({"jwt_jwks_url": "http://id.example/keys"}, "jwt_jwks_url"),
        ({"api_keys": "missing.json"}, "api_keys"),
        ({"jwt_issuer": "https://id.example"}, "jwt_issuer"),
        ({"jwt_audience": "skep"}, "jwt_audience"),
        ({"jwt_audience": "skep", "api_keys": "missing.json"}, "jwt_audience"),
        ({"jwt_secret": SECRET, "jwt_clock_skew": 61}, "jwt_clock_skew"),
        ({"jwt_secret": SECRET, "jwt_clock_skew": -1}, "jwt_clock_skew"),
    ],
)
def test_a_setting_that_is_wrong_or_fits_no_other_stops_the_server_and_is_named(
    given: dict[str, Any], field: str
) -> None:
    settings = Settings(**given)

    with pytest.raises(Invalid) as refused:
        build_authenticator(settings)

    assert refused.value.field == field
    assert SECRET not in str(refused.value)
    assert "short" not in str(refused.value)


# What it is told.


@pytest.mark.parametrize(
    "name", ["jwt_secret", "jwt_public_key", "jwt_jwks_url", "api_keys", "jwt_audience"]
)
def test_a_variable_that_was_not_filled_in_does_not_open_the_door(name: str) -> None:
    with pytest.raises(Invalid, match=f"{name}: is empty"):
        Settings.from_env({f"SKEP_{name.upper()}": ""})

    with pytest.raises(Invalid, match=f"{name}: is empty"):
        Settings.from_env({}, **{name: ""})


def test_settings_that_have_a_value_anyway_may_be_empty() -> None:
    assert Settings.from_env({"SKEP_HOST": "", "SKEP_PORT": ""}) == Settings()


def test_settings_do_not_show_the_secret() -> None:
    settings = Settings.from_env({"SKEP_JWT_SECRET": SECRET, "SKEP_BEHIND_TLS_PROXY": "yes"})

    assert settings.jwt_secret == SECRET
    assert settings.behind_tls_proxy
    assert SECRET not in repr(settings)


def test_settings_show_no_secret() -> None:
    settings = Settings(store="postgresql://skep:s3cret@db/skep", jwt_secret="s3cret" * 8)

    assert "s3cret" not in repr(settings)


# Quotas.


@pytest.mark.parametrize("name", [f"quota_{name}" for name in Quota.__struct_fields__])
def test_a_quota_is_not_negative(name: str) -> None:
    with pytest.raises(Invalid, match=f"^{name}: must be 0 or more, not -1"):
        Settings.from_env({f"SKEP_{name.upper()}": "-1"})


def test_a_quota_is_for_every_limit_that_a_key_has_not() -> None:
    quota = Quota(queues=1, groups=0).or_else(Settings(quota_partitions=7).quota)

    assert (quota.queues, quota.groups, quota.partitions) == (1, 0, 7)
    assert None not in msgspec.structs.astuple(quota)
