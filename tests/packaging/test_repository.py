"""The files around the code agree with it: workflows, container, service, changelog."""

import re
import subprocess
from dataclasses import fields
from pathlib import Path

import pytest
import yaml  # type: ignore[import-untyped]
from tools.release_notes import release_notes

from skep.settings import Settings

ROOT = Path(__file__).parents[2]
YAML = [
    *ROOT.glob(".github/**/*.yml"),
    ROOT / ".pre-commit-config.yaml",
    ROOT / "compose.yaml",
]
SETTINGS = {f"SKEP_{field.name.upper()}" for field in fields(Settings)}


@pytest.mark.parametrize("path", YAML, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_yaml_file_can_be_read(path: Path) -> None:
    assert isinstance(yaml.safe_load(path.read_text()), dict)


def test_every_make_target_of_a_workflow_exists() -> None:
    makefile = (ROOT / "Makefile").read_text()
    workflows = "\n".join(path.read_text() for path in ROOT.glob(".github/workflows/*.yml"))

    used = set(re.findall(r"run: make ([a-z-]+)", workflows))

    assert used >= {"lint", "test", "docs", "check-install"}
    assert [name for name in used if not re.search(rf"^{name}:", makefile, re.MULTILINE)] == []


def test_the_image_installs_with_the_script_and_runs_as_another_user_than_root() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()

    assert "RUN sh packaging/install.sh /opt/skep /src" in dockerfile
    assert re.findall(r"^USER (.*)$", dockerfile, re.MULTILINE) == ["10001"]
    assert "VOLUME /data" in dockerfile


def test_everything_that_the_image_copies_exists_and_is_not_ignored() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()
    allowed = re.findall(r"^!(.*)$", (ROOT / ".dockerignore").read_text(), re.MULTILINE)

    copied = [
        name
        for line in re.findall(r"^COPY (?!--from)(.*)$", dockerfile, re.MULTILINE)
        for name in line.split()[:-1]
    ]

    assert [name for name in copied if not (ROOT / name).exists()] == []
    assert sorted(copied) == sorted(allowed)


@pytest.mark.parametrize("name", ["Dockerfile", "compose.yaml", "packaging/skep.service"])
def test_every_variable_is_a_setting(name: str) -> None:
    used = set(re.findall(r"\bSKEP_[A-Z_]+\b", (ROOT / name).read_text()))

    assert used
    assert used <= SETTINGS


@pytest.mark.parametrize("script", ["packaging/install.sh", "packaging/check.sh"])
def test_a_script_is_valid_shell(script: str) -> None:
    subprocess.run(["sh", "-n", str(ROOT / script)], check=True)


def test_the_version_has_release_notes() -> None:
    assert "### Added" in release_notes("v0.1.0")


def test_another_tag_is_rejected() -> None:
    with pytest.raises(SystemExit, match=r"not v0\.1\.0"):
        release_notes("v9.9.9")
