"""The model, the rules and the errors are covered to the last branch."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
def test_the_unit_tests_take_every_branch_of_model_rules_and_errors() -> None:
    checked = subprocess.run(
        [sys.executable, "-m", "tools.check_coverage"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )

    assert checked.returncode == 0, checked.stdout + checked.stderr
