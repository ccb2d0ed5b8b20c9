"""What docs/how-to/authentication.md says is so."""

import re
from dataclasses import fields
from pathlib import Path

import pytest

from skep.http.auth.api_key import read_keys
from skep.http.auth.jwt import Expected, SingleKey, Tokens, from_secret
from skep.http.auth.principal import ROLES
from skep.settings import Settings
from tests.support.http.token_signing import SECRET, base64url, sign_parts

PAGE = (Path(__file__).parents[2] / "docs/how-to/authentication.md").read_text()
SETTINGS = [
    field.name
    for field in fields(Settings)
    if field.name.startswith(("jwt_", "tls_", "api_", "allow_", "behind_"))
]


@pytest.mark.parametrize("name", [*SETTINGS, *ROLES])
def test_every_role_and_every_setting_about_security_is_explained(name: str) -> None:
    assert f"`{name}`" in PAGE


def test_the_lines_that_make_a_key_make_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    monkeypatch.chdir(tmp_path)

    exec(block, {})

    assert capsys.readouterr().out.startswith("skep_")
    assert [key.subject for key in read_keys(tmp_path / "keys.json")] == ["billing"]


async def test_the_token_and_the_file_that_are_shown_are_right(tmp_path: Path) -> None:
    keys, claims = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "keys.json").write_text(keys)
    tokens = Tokens(SingleKey(from_secret(SECRET)), Expected(), now=lambda: 1893499200.0)

    token = sign_parts({"alg": "HS256"}, base64url(claims.encode()))
    verified = await tokens.verify(token.encode())
    (key,) = read_keys(tmp_path / "keys.json")

    assert verified.principal.queues == ("orders", "mail-*")
    assert key.queues == ("orders",)
