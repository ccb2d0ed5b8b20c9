"""The site builds without a warning, and its generated pages are current."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tools import write_http_docs

from tests.docs.pages import DOCS, PAGES, ROOT


def test_the_site_builds_without_a_warning(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    assert (tmp_path / "site/reference/python/index.html").exists()


def test_links_between_pages_lead_somewhere() -> None:
    pages = [*PAGES, *ROOT.glob("*.md"), ROOT / "benchmarks/README.md"]

    broken = [
        (page.name, target)
        for page in pages
        for target in re.findall(r"\]\(([^)#:]+)\)", page.read_text())
        if not (page.parent / target).exists()
    ]

    assert broken == []


def test_links_to_the_repository_lead_to_files_in_it() -> None:
    pattern = r"https://github\.com/skep-queue/skep/(?:blob|tree)/main/([^)#\s>]+)"

    broken = [
        (page.name, target)
        for page in [*PAGES, *ROOT.glob("*.md")]
        for target in re.findall(pattern, page.read_text())
        if not (ROOT / target).exists()
    ]

    assert broken == []


def test_the_http_reference_is_that_of_the_server() -> None:
    stale = [
        path.name for path, text in write_http_docs.generated().items() if path.read_text() != text
    ]

    assert stale == [], "run make http-docs"


def test_every_decision_is_in_the_list() -> None:
    index = (DOCS / "adr/index.md").read_text()

    missing = [page.name for page in DOCS.glob("adr/0*.md") if f"({page.name})" not in index]

    assert missing == []
