"""The documentation says what is so: its examples run, and everything public is in it."""

import ast
import asyncio
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import fields
from inspect import iscoroutine
from pathlib import Path
from typing import Any

import pytest

import skep
from skep import errors
from skep.client.resources.async_dead_letters import AsyncDeadLettersResource
from skep.client.resources.async_groups import AsyncGroupsResource
from skep.client.resources.async_maintenance import AsyncMaintenanceResource
from skep.client.resources.async_messages import AsyncMessagesResource
from skep.client.resources.async_pipelines import AsyncPipelinesResource
from skep.client.resources.async_queues import AsyncQueuesResource
from skep.client.resources.async_traces import AsyncTracesResource
from skep.core.admin.dead_letter import DeadLetters
from skep.core.admin.group import Groups
from skep.core.admin.message import Messages
from skep.core.admin.pipeline_run import Pipelines
from skep.core.admin.queue import Queues
from skep.core.admin.trace import Traces
from skep.model.queue import QueueOptions
from skep.settings import Settings
from skep.wire.paths import DEFAULT_URL
from tests.support.server_process import ServerProcess

ROOT = Path(__file__).parents[2]
DOCS = "\n".join(path.read_text() for path in [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))])
EXAMPLES = sorted(ROOT.glob("examples/*.py"))


@pytest.fixture
def url() -> Iterator[str]:
    """A server for whatever talks to one."""
    with ServerProcess("memory://") as server:
        yield server.url


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


def test_the_first_lines_of_the_readme_talk_to_a_server(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    program = blocks("README.md", "python")[0].replace(DEFAULT_URL, url)

    exec(program, {})
    exec(program, {})

    assert capsys.readouterr().out == "alice 0 {'total': 12}\nalice 1 {'total': 12}\n"
    assert DEFAULT_URL in (ROOT / "README.md").read_text()


def test_the_commands_of_the_readme_work_as_they_are(url: str) -> None:
    (commands,) = [block for block in blocks("README.md", "sh") if "skep push" in block]
    here = commands.replace(DEFAULT_URL, url).replace(".venv/bin/skep", f"{sys.executable} -m skep")

    done = subprocess.run(
        ["bash", "-euc", here],
        env={**os.environ, "SKEP_URL": url},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert '{"total": 7}' in done.stdout
    assert '"consumerGroup":"shipping"' in done.stdout


def test_the_readme_has_a_queue_without_a_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    exec(blocks("README.md", "python")[1], {})

    assert (tmp_path / "data").is_dir()


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs(example: Path, url: str) -> None:
    arguments = [url] if example.stem.startswith("client_") else []

    done = subprocess.run(
        [sys.executable, str(example), *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout


def test_the_page_about_clients_runs_from_top_to_bottom(url: str) -> None:
    names: dict[str, Any] = {}

    for block in blocks("docs/client.md", "python"):
        program = block.replace(DEFAULT_URL, url)
        code = compile(program, "docs/client.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        # What awaits at the top gives a coroutine, anything else has run when this returns.
        done = eval(code, names)
        if iscoroutine(done):
            asyncio.run(asyncio.wait_for(done, 30))

    assert names["message"].queue == "mails"


@pytest.mark.parametrize("option", QueueOptions.__struct_fields__)
def test_every_option_of_a_queue_is_explained(option: str) -> None:
    assert f"`{option}`" in (ROOT / "docs/concepts.md").read_text()


@pytest.mark.parametrize(
    "name", sorted(name for name, value in vars(errors).items() if isinstance(value, type))
)
def test_every_error_is_explained(name: str) -> None:
    if name != "SkepError":
        assert f"`{name}`" in (ROOT / "docs/concepts.md").read_text()


@pytest.mark.parametrize("field", [field.name for field in fields(Settings)])
def test_every_setting_is_explained(field: str) -> None:
    assert f"`SKEP_{field.upper()}`" in (ROOT / "docs/server.md").read_text()


@pytest.mark.parametrize("name", skep.__all__)
def test_every_public_name_is_shown(name: str) -> None:
    assert re.search(rf"\b{name}\b", DOCS)


@pytest.mark.parametrize(
    "part",
    [
        skep.AsyncClient,
        skep.AsyncConsumer,
        skep.AsyncWorker,
        skep.Worker,
        skep.AsyncProducer,
        AsyncDeadLettersResource,
        AsyncGroupsResource,
        AsyncMaintenanceResource,
        AsyncMessagesResource,
        AsyncPipelinesResource,
        AsyncQueuesResource,
        AsyncTracesResource,
        skep.Broker,
        skep.Client,
        skep.Consumer,
        DeadLetters,
        Groups,
        Messages,
        Pipelines,
        Queues,
        Traces,
    ],
)
def test_every_public_method_has_a_docstring(part: type) -> None:
    public = [
        name for name in vars(part) if not name.startswith("_") and callable(getattr(part, name))
    ]

    silent = [name for name in public if not getattr(part, name).__doc__]

    assert silent == []


def test_links_between_pages_lead_somewhere() -> None:
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/**/*.md")]

    broken = [
        (page.name, target)
        for page in pages
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text())
        if not (page.parent / target).exists()
    ]

    assert broken == []
