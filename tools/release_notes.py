"""Print the section of the changelog for a tag, such as v0.1.0.

Exits with an error if the tag is not the version of the project or has no dated section.
"""

import re
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def release_notes(tag: str) -> str:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    if tag != f"v{version}":
        sys.exit(f"tag {tag} is not v{version}, the version in pyproject.toml")
    section = re.search(
        rf"^## \[{re.escape(version)}\] - \d{{4}}-\d\d-\d\d\n(.*?)(?=^## |\Z)",
        (ROOT / "CHANGELOG.md").read_text(),
        re.DOTALL | re.MULTILINE,
    )
    if section is None:
        sys.exit(f"CHANGELOG.md has no dated section for {version}")
    return section[1].strip()


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("usage: release_notes.py TAG")
    sys.stdout.write(release_notes(sys.argv[1]) + "\n")


if __name__ == "__main__":
    main()
