"""``skep application``: how far something is that writes under versions, and starting over."""

from uuid import uuid4

import httpx
import pytest

from tests.support.cli_shell import Shell


@pytest.fixture
def name(shell: Shell) -> str:
    """An application that has committed a version."""
    name = f"nightly {uuid4().hex}"
    body = {"app": name, "version": 7, "stages": []}
    httpx.post(
        f"{shell.environment['SKEP_URL']}/api/v1/journal/commit", json=body
    ).raise_for_status()
    return name


def test_the_last_version_is_shown(shell: Shell, name: str) -> None:
    assert shell.run("application", "show", name).stdout == "last committed version: 7\n"
    assert shell.json("application", "show", name) == {"app": name, "version": 7}
    assert shell.run("application", "show", "nobody").stdout == "last committed version: none\n"


def test_an_application_starts_over_after_somebody_has_said_so(shell: Shell, name: str) -> None:
    refused = shell.run("application", "reset", name, answer="n\n", expect=1).stderr
    assert shell.json("application", "show", name)["version"] == 7

    done = shell.run("application", "reset", name, "--yes").stdout

    assert "nothing was changed" in refused
    assert done == f"reset {name}, last committed version: 7\n"
    assert shell.json("application", "show", name)["version"] is None


def test_an_application_that_has_committed_nothing_cannot_be_reset(shell: Shell) -> None:
    said = shell.said("application", "reset", "nobody", "--yes", expect=4)

    assert "'nobody' has not committed" in said
