"""The documentation says what is so: its examples run, and everything public is in it."""

import re
import runpy
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

import skep
from skep import errors
from skep.core.dead_letters import DeadLetters
from skep.core.groups import Groups
from skep.core.messages import Messages
from skep.core.queues import Queues
from skep.core.traces import Traces
from skep.model.queue import QueueOptions
from skep.settings import Settings

ROOT = Path(__file__).parents[2]
DOCS = "\n".join(path.read_text() for path in [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md"))])
EXAMPLES = sorted(ROOT.glob("examples/*.py"))


def test_the_readme_has_lines_that_run_as_they_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (block,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    program = tmp_path / "readme.py"
    program.write_text(block)
    monkeypatch.chdir(tmp_path)

    runpy.run_path(str(program))

    assert capsys.readouterr().out == "alice 0 b'{\"total\": 12}'\n"


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs(example: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(example)], capture_output=True, text=True, timeout=60, check=False
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout


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


@pytest.mark.parametrize("part", [skep.Broker, Queues, Groups, Messages, DeadLetters, Traces])
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
