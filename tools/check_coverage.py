"""Check that the unit tests take every branch of the model, the rules and the errors.

``python -m tools.check_coverage`` runs them, and fails with the lines and branches that they miss.
"""

import os
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).parents[1]
PACKAGES = ("skep.model", "skep.core.rules", "skep.errors")
TESTS = ("tests/unit/model", "tests/unit/core/rules", "tests/unit/test_errors.py")


def main() -> int:
    with TemporaryDirectory(prefix="skep-coverage-") as directory:
        environment = os.environ | {"COVERAGE_FILE": str(Path(directory) / "coverage")}
        pytest = ("pytest", "-q", "-p", "no:cacheprovider", *TESTS)
        source = f"--source={','.join(PACKAGES)}"
        return _coverage(environment, "run", "--branch", source, "-m", *pytest) or _coverage(
            environment, "report", "--show-missing", "--skip-covered", "--fail-under=100"
        )


def _coverage(environment: dict[str, str], *arguments: str) -> int:
    command = [sys.executable, "-m", "coverage", *arguments]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
