"""Which tokens are believed, and what they say of their bearer."""

from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key as make_ec
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key as make_rsa
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from hypothesis import given, strategies as st

from skep.errors import Invalid, Unauthenticated
from skep.http.auth.jwt import (
    MAX_BYTES,
    Expected,
    SingleKey,
    Tokens,
    Verified,
    VerifyingKey,
    from_pem,
    from_secret,
)
from skep.http.auth.principal import Permission
from skep.testing.clock import ManualClock
from tests.support.http.token_signing import (
    ED25519,
    OTHER_RSA,
    RSA,
    SECRET,
    START,
    base64url,
    claims,
    part,
    pem,
    seconds,
    sign,
    sign_claims,
    sign_parts,
    write_pem,
)

HS256 = from_secret(SECRET)
RS256 = VerifyingKey("RS256", RSA.public_key())


async def verify(
    token: str, *, key: VerifyingKey = HS256, clock: ManualClock | None = None, **expected: Any
) -> Verified:
    clock = clock or ManualClock()
    tokens = Tokens(SingleKey(key), Expected(**expected), now=lambda: seconds(clock))
    return await tokens.verify(token.encode())


async def refusal(token: str, **how: Any) -> str:
    """Why a token is refused."""
    with pytest.raises(Unauthenticated) as refused:
        await verify(token, **how)
    return str(refused.value)


# Signatures.


@pytest.mark.parametrize(
    ("algorithm", "key"), [("RS256", RSA), ("EdDSA", ED25519)], ids=["RS256", "EdDSA"]
)
async def test_a_token_is_believed_if_the_key_in_the_file_signed_it(
    algorithm: str, key: Any, tmp_path: Path
) -> None:
    found = from_pem(write_pem(tmp_path / "key.pem", key))

    verified = await verify(sign(algorithm), key=found)

    assert found.algorithm == algorithm
    assert verified.principal.subject == "alice"


async def test_a_token_is_believed_if_the_secret_signed_it() -> None:
    verified = await verify(sign())

    assert verified.principal.subject == "alice"


async def test_a_token_signed_with_another_secret_is_refused() -> None:
    forged = sign(key="another secret that is long enough too")

    assert await refusal(forged) == "the token's signature is invalid"


async def test_a_token_signed_with_another_private_key_is_refused() -> None:
    forged = sign("RS256", key=OTHER_RSA)

    assert await refusal(forged, key=RS256) == "the token's signature is invalid"


async def test_a_token_whose_claims_were_changed_is_refused() -> None:
    header, _, signature = sign(role="monitor").split(".")
    changed = ".".join((header, part(claims(role="admin")), signature))

    assert await refusal(changed) == "the token's signature is invalid"


@pytest.mark.parametrize("spelling", ["none", "None", "NONE", "nOnE"])
@pytest.mark.parametrize("key", [HS256, RS256], ids=["HS256", "RS256"])
async def test_a_token_without_a_signature_is_refused(spelling: str, key: VerifyingKey) -> None:
    unsigned = f"{part({'alg': spelling, 'typ': 'JWT'})}.{part(claims())}."

    assert await refusal(unsigned, key=key) == "the token's algorithm is not this server's"


async def test_a_public_key_is_not_taken_for_a_secret() -> None:
    confused = sign_parts({"alg": "HS256"}, part(claims()), key=pem(RSA))

    assert await refusal(confused, key=RS256) == "the token's algorithm is not this server's"


@pytest.mark.parametrize("algorithm", ["HS384", "HS512"])
async def test_the_key_decides_the_algorithm_and_not_the_token(algorithm: str) -> None:
    longer = SECRET * 2
    token = sign(algorithm, key=longer)

    reason = await refusal(token, key=from_secret(longer))

    assert reason == "the token's algorithm is not this server's"


# Headers.


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("jku", "https://evil.example/keys"),
        ("x5u", "https://evil.example/certificate"),
        ("x5c", ["MIIB"]),
        ("jwk", {"kty": "oct", "k": "c2VjcmV0"}),
    ],
)
async def test_a_token_may_not_bring_its_key_along(name: str, value: object) -> None:
    token = sign(headers={name: value})

    assert await refusal(token) == f"the token header '{name}' is not allowed"


@pytest.mark.parametrize("critical", [["exp"], ["b64"], [], "b64"])
async def test_a_token_with_a_critical_extension_is_refused(critical: object) -> None:
    header = {"alg": "HS256", "crit": critical, "b64": True}

    token = sign_parts(header, part(claims()))

    assert "the token" in await refusal(token)


async def test_a_token_that_is_too_large_is_not_even_read() -> None:
    token = sign(note="x" * MAX_BYTES)

    assert await refusal(token) == "the token is larger than 8192 bytes"


@pytest.mark.parametrize(
    "text",
    ["", ".", "..", "...", "a.b.c", "e30.e30.", "W10.W10.", "é.é.é", "not a token", "e30.e30.\n"],
)
async def test_what_is_no_token_is_refused(text: str) -> None:
    assert "the token" in await refusal(text)


@given(st.text(max_size=60) | st.builds(".".join, st.lists(st.text("ey0_-=.é", max_size=9))))
async def test_whatever_is_sent_is_refused_and_nothing_breaks(text: str) -> None:
    with pytest.raises(Unauthenticated):
        await verify(text)


# Times.


async def test_a_token_is_good_until_it_expires_and_the_skew_is_over(clock: ManualClock) -> None:
    token = sign(exp=START + 60)
    clock.advance(89.9)
    verified = await verify(token, clock=clock, skew=30)

    clock.advance(0.1)

    assert verified.good_until == START + 90
    assert await refusal(token, clock=clock, skew=30) == "the token has expired"


async def test_a_token_is_not_good_before_its_time(clock: ManualClock) -> None:
    token = sign(nbf=START + 60, exp=START + 600)
    clock.advance(29.9)

    early = await refusal(token, clock=clock, skew=30)
    clock.advance(0.1)

    assert early == "the token is not valid yet"
    assert (await verify(token, clock=clock, skew=30)).principal.subject == "alice"


async def test_a_token_that_never_expires_is_refused() -> None:
    assert "required field `exp`" in await refusal(sign(exp=None))


@pytest.mark.parametrize("value", ["soon", "1893499260", True, [1], {"at": 1}])
async def test_a_time_that_is_no_number_is_refused(value: object) -> None:
    assert "`$.exp`" in await refusal(sign_claims(claims() | {"exp": value}))
    assert "`$.nbf`" in await refusal(sign_claims(claims() | {"nbf": value}))


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
async def test_a_time_that_is_not_finite_is_refused(number: str) -> None:
    payload = base64url(f'{{"exp": {number}}}'.encode())

    token = sign_parts({"alg": "HS256"}, payload)

    assert "the token" in await refusal(token)


# Issuer and audience.


@pytest.mark.parametrize("issuer", [None, "https://other.example", "https://id.example/"])
async def test_a_token_of_another_issuer_is_refused(issuer: str | None) -> None:
    token = sign(iss=issuer)

    reason = await refusal(token, issuer="https://id.example")

    assert reason == "the token has the wrong issuer"


@pytest.mark.parametrize("audience", [None, "wiki", ["wiki", "mail"], [], "ske"])
async def test_a_token_for_another_audience_is_refused(audience: object) -> None:
    token = sign(aud=audience)

    assert await refusal(token, audience="skep") == "the token has the wrong audience"


@pytest.mark.parametrize("audience", ["skep", ["wiki", "skep"]])
async def test_a_token_of_our_issuer_for_us_is_believed(audience: object) -> None:
    token = sign(iss="https://id.example", aud=audience)

    verified = await verify(token, issuer="https://id.example", audience="skep")

    assert verified.principal.subject == "alice"


async def test_issuer_and_audience_do_not_matter_where_none_is_expected() -> None:
    token = sign(iss="https://anybody.example", aud="anything")

    assert (await verify(token)).principal.subject == "alice"


# Who it is.


@pytest.mark.parametrize("subject", [None, ""])
async def test_a_token_without_a_subject_is_nobody_in_particular(subject: str | None) -> None:
    token = sign_claims({"exp": START + 60} | ({} if subject is None else {"sub": subject}))

    assert (await verify(token)).principal.subject is None


@pytest.mark.parametrize("subject", [7, ["alice"], "a" * 256, "alice\nadmin"])
async def test_a_subject_that_could_not_be_kept_with_a_message_is_refused(subject: object) -> None:
    assert "sub" in await refusal(sign_claims(claims() | {"sub": subject}))


@pytest.mark.parametrize(
    ("given", "permissions"),
    [
        ({"role": "producer"}, {Permission.PUSH}),
        ({"roles": ["producer", "consumer"]}, {Permission.PUSH, Permission.POP}),
        ({"role": "consumer", "roles": ["producer"]}, {Permission.PUSH, Permission.POP}),
        ({"role": "Admin"}, set()),
        ({"role": "superuser", "roles": ["root", ""]}, set()),
        ({}, set()),
    ],
)
async def test_roles_are_what_the_claims_say(
    given: dict[str, Any], permissions: set[Permission]
) -> None:
    token = sign(**({"role": None} | given))

    assert (await verify(token)).principal.permissions == permissions


async def test_the_claim_with_the_roles_can_have_another_name() -> None:
    token = sign(role=None, groups=["monitor"], roles=["admin"])

    verified = await verify(token, roles_claim="groups")

    assert verified.principal.permissions == {Permission.STATUS}


@pytest.mark.parametrize("value", [7, {"admin": True}, [7], [["admin"]]])
@pytest.mark.parametrize("name", ["role", "roles"])
async def test_roles_that_are_not_texts_are_refused(name: str, value: object) -> None:
    assert f"'{name}' must be" in await refusal(sign_claims(claims() | {name: value}))


async def test_a_token_without_the_claim_queues_is_for_all_of_them() -> None:
    principal = (await verify(sign())).principal

    assert principal.sees("payments")
    assert not principal.restricted


async def test_a_token_with_the_claim_queues_is_for_these_only() -> None:
    principal = (await verify(sign(queues=["orders", "mail-*"]))).principal

    seen = [
        name for name in ("orders", "mail-", "mail-x", "mail", "orders2") if principal.sees(name)
    ]

    assert seen == ["orders", "mail-", "mail-x"]


async def test_a_token_with_no_queue_in_its_claim_is_for_none() -> None:
    principal = (await verify(sign(queues=[]))).principal

    assert principal.restricted
    assert not principal.sees("orders")


@pytest.mark.parametrize("value", [None, "orders", "*", {"orders": 1}, [7], 7])
async def test_queues_that_are_no_list_of_names_are_refused(value: object) -> None:
    assert "`$.queues" in await refusal(sign_claims(claims() | {"queues": value}))


async def test_a_reason_shows_nothing_of_the_token() -> None:
    secret = "canary-4711"
    tokens = [
        sign(exp=secret),
        sign(role={secret: 1}),
        sign(sub=secret + "\n"),
        sign(iss=secret, aud=secret),
        sign(headers={"kid": secret, "alg": "HS256"}, key=secret * 4),
        secret,
    ]

    reasons = [await refusal(token, issuer="us", audience="us") for token in tokens]

    assert not [reason for reason in reasons if secret in reason]
    assert not [reason for reason in reasons for token in tokens if token[:20] in reason]


# Keys.


def test_a_secret_that_is_short_is_refused() -> None:
    with pytest.raises(Invalid, match=r"^jwt_secret: must have at least 32 bytes, not 31$"):
        from_secret("x" * 31)


def test_a_secret_is_measured_in_bytes() -> None:
    assert from_secret("é" * 16).algorithm == "HS256"


def test_a_public_key_is_refused_as_a_secret() -> None:
    with pytest.raises(Invalid, match="jwt_secret: is a public key") as refused:
        from_secret(pem(RSA).decode())

    assert "BEGIN" not in str(refused.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match=r"jwt_public_key: .*missing\.pem cannot be read"):
        from_pem(str(tmp_path / "missing.pem"))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"not a key",
        b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n",
        RSA.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
    ],
    ids=["empty", "text", "damaged", "private"],
)
def test_a_file_without_a_public_key_is_refused(content: bytes, tmp_path: Path) -> None:
    file = tmp_path / "key.pem"
    file.write_bytes(content)

    with pytest.raises(Invalid, match=r"^jwt_public_key: .* contains no public key in PEM format"):
        from_pem(str(file))


@pytest.mark.parametrize("key", [make_rsa(65537, 1024), make_ec(SECP256R1())], ids=["short", "EC"])
def test_a_key_that_is_weak_or_of_another_kind_is_refused(key: Any, tmp_path: Path) -> None:
    file = tmp_path / "key.pem"
    file.write_bytes(key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))

    with pytest.raises(Invalid, match="must be an RSA key of at least 2048 bits, or an Ed25519"):
        from_pem(str(file))
