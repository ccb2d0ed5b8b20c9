"""Every code example of the documentation runs."""

import ast
import asyncio
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from inspect import iscoroutine
from pathlib import Path
from typing import Any

import pytest
import typer

from skep import Client
from skep.cli.root import app
from skep.wire.paths import DEFAULT_URL
from tests.docs.pages import DOCS, PAGES, ROOT, SPARK_PAGES, blocks, name_of
from tests.support.server_process import ServerProcess

EXAMPLES = sorted(ROOT.glob("examples/*.py"))
ELSEWHERE = {
    DOCS / "how-to/outbox.md": "tests/postgres/test_outbox.py",
    DOCS / "how-to/pipelines.md": "tests/spark/test_transform.py",
}
"""Pages whose Python needs a database or Spark, and the test that runs it."""

COMMAND_PAGES = [
    page for page in PAGES if re.search(r"^\$? ?skep ", page.read_text(), re.MULTILINE)
]


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with ServerProcess("memory://") as process:
        yield process


@pytest.fixture
def url(server: ServerProcess) -> str:
    """A server without queues."""
    with Client(server.url) as client:
        for queue in client.queues.list():
            client.queues.delete(queue.name)
    return server.url


def examples(page: Path) -> list[str]:
    """The Python of a page that needs no Spark."""
    return [block for block in blocks(page, "python") if "spark" not in block]


def run(page: Path, url: str) -> dict[str, Any]:
    """Run the Python of a page from top to bottom, in one namespace."""
    names: dict[str, Any] = {}
    for block in examples(page):
        program = block.replace(DEFAULT_URL, url)
        code = compile(program, name_of(page), "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
        # Code that awaits at the top level returns a coroutine; other code has run by now.
        running = eval(code, names)
        if iscoroutine(running):
            asyncio.run(asyncio.wait_for(running, 60))
    return names


@pytest.mark.parametrize(
    "page", [page for page in PAGES if examples(page) and page not in ELSEWHERE], ids=name_of
)
def test_the_python_of_a_page_runs_from_top_to_bottom(
    page: Path, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    assert run(page, url)


def test_python_that_needs_spark_or_a_database_is_run_by_another_test() -> None:
    with_spark = [
        page
        for page in PAGES
        if page not in ELSEWHERE and any("spark" in block for block in blocks(page, "python"))
    ]

    assert with_spark == sorted(SPARK_PAGES, key=PAGES.index)
    for page, test in ELSEWHERE.items():
        assert name_of(page).removeprefix("docs/") in (ROOT / test).read_text()


def test_the_first_example_of_the_readme_prints_the_message(
    url: str, capsys: pytest.CaptureFixture[str]
) -> None:
    program = blocks(ROOT / "README.md", "python")[0].replace(DEFAULT_URL, url)

    exec(program, {})
    exec(program, {})

    assert capsys.readouterr().out == "{'total': 12}\n{'total': 12}\n"


@pytest.mark.parametrize("page", [ROOT / "README.md", DOCS / "quickstart.md"], ids=name_of)
def test_the_commands_of_the_first_page_work(page: Path, url: str) -> None:
    (commands,) = [block for block in blocks(page, "sh") if "skep push" in block]

    done = shell(commands, url)

    assert done.returncode == 0, done.stderr
    assert '{"total": 7}' in done.stdout
    assert '"consumerGroup":"shipping"' in done.stdout


@pytest.mark.parametrize("name", ["reference/http.md", "how-to/pipelines.md"])
def test_the_requests_of_a_page_are_accepted(name: str, url: str) -> None:
    requests = [block for block in blocks(DOCS / name, "sh") if block.startswith("curl ")]

    done = [shell(block, url) for block in requests]

    assert requests
    assert [result.stderr for result in done if result.returncode] == []


def shell(commands: str, url: str) -> subprocess.CompletedProcess[str]:
    """Run commands as they are on the page, against the server at ``url``."""
    here = (
        commands.replace(DEFAULT_URL, url)
        .replace("localhost:6632", url)
        .replace("curl ", "curl --fail-with-body -sS ")
    )
    program = f'skep() {{ "{sys.executable}" -m skep "$@"; }}\n{here}'
    return subprocess.run(
        ["bash", "-euc", program],
        env={**os.environ, "SKEP_URL": url},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


@pytest.mark.parametrize("page", COMMAND_PAGES, ids=name_of)
def test_every_command_on_a_page_exists_with_its_options(page: Path) -> None:
    assert [problem for words in commands_of(page) if (problem := wrong_with(words))] == []


def commands_of(page: Path) -> Iterator[list[str]]:
    """The words of every ``skep`` command in the shell and text blocks of a page."""
    for block in [*blocks(page, "sh"), *blocks(page, "text")]:
        for line in block.replace("\\\n", " ").splitlines():
            for part in re.split(r" [|&]+ ?", line):
                command = re.match(r"(?:\$ )?(?:[A-Z_]+=\S+ )*skep (?!:)(.*)", part)
                if command:
                    yield shlex.split(command[1].rstrip("&"), comments=True)


def wrong_with(words: list[str]) -> str | None:
    """Why the command line does not parse; None if it does."""
    command: Any = typer.main.get_command(app)
    context = command.context_class(command, info_name="skep")
    rest = list(words)
    while hasattr(command, "get_command"):
        command = command.get_command(context, rest.pop(0)) if rest else None
        if command is None:
            return f"skep {' '.join(words)}: no such command"
        context = command.context_class(command, info_name=command.name, parent=context)
    try:
        _, extra, _ = command.make_parser(context).parse_args(rest)
    except Exception as error:
        return f"skep {' '.join(words)}: {error}"
    return f"skep {' '.join(words)}: too many arguments" if extra else None


def test_a_command_that_does_not_exist_is_noticed() -> None:
    assert wrong_with(["queue", "list"]) is None
    assert wrong_with(["queue", "explode"])
    assert wrong_with(["queue", "list", "--explode"])


@pytest.mark.parametrize(
    ("page", "text"),
    [(page, block) for page in PAGES for block in blocks(page, "json")],
    ids=lambda value: name_of(value) if isinstance(value, Path) else "",
)
def test_the_json_of_a_page_is_json(page: Path, text: str) -> None:
    assert json.loads(text)


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
