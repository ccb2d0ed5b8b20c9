"""Typing commands."""

import json
import os
import subprocess
import sys
from typing import Any

from typer.testing import CliRunner, Result

from skep.cli.root import app


class Shell:
    """Runs commands against a server, here or in a process of their own."""

    def __init__(self, url: str, **environment: str) -> None:
        self.environment = {"SKEP_URL": url, **environment}

    def run(self, *arguments: str, expect: int = 0, answer: str | None = None) -> Result:
        result = CliRunner().invoke(app, arguments, input=answer, env=self.environment)
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert result.exit_code == expect, result.output
        return result

    def json(self, *arguments: str) -> Any:
        """What a command that is done prints for programs."""
        return json.loads(self.run(*arguments, "--json").stdout)

    def said(self, *arguments: str, expect: int) -> str:
        """The one line with which a command refuses."""
        result = self.run(*arguments, expect=expect)
        assert result.stderr.startswith("skep: ")
        assert result.stderr.count("\n") == 1
        return result.stderr

    def misused(self, *arguments: str) -> str:
        """What is said to wrong usage; without the frame around it, in one line."""
        words = self.run(*arguments, expect=2).stderr
        return " ".join(words.translate(str.maketrans("│╭╮╰╯─", "      ")).split())

    def process(self, *arguments: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [sys.executable, "-m", "skep", *arguments],
            env={**os.environ, **self.environment},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def pipe(self, lines: bytes, *arguments: str) -> tuple[int, str, str]:
        """The exit code and the words of a command that lines are piped into."""
        with self.process(*arguments) as process:
            out, error = process.communicate(lines, timeout=180)
        return process.returncode, out.decode(), error.decode()
