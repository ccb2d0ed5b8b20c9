"""The pages of the documentation, and their code blocks."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("**/*.md"))]
SPARK_PAGES = [
    DOCS / "quickstart.md",
    DOCS / "how-to/spark.md",
    DOCS / "how-to/exactly-once-spark.md",
    DOCS / "reference/spark-options.md",
]
"""Pages with examples that need Spark; ``tests/spark/test_page.py`` runs them."""


def blocks(page: Path, language: str) -> list[str]:
    """The code blocks of a page in a language, in order."""
    return re.findall(rf"```{language}\n(.*?)```", page.read_text(), re.DOTALL)


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))
