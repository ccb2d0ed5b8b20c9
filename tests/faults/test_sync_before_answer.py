"""Nothing is answered before it is on disk: the order of system calls shows it."""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.faults.child_process import PATIENCE, ROOT, command
from tests.support.faults.sync_probe import ROUNDS

ANSWERS = {"pushed", "popped", "extended", "acked", "transacted"}

LINE = re.compile(
    r"^(?P<thread>\d+) +"
    r"(?:(?P<call>\w+)\((?P<file>\d+)<(?P<path>[^>]*)>(?P<rest>.*)"
    r"|<\.\.\. (?P<again>\w+) resumed>(?P<end>.*))$"
)


class Call(NamedTuple):
    """A system call that has come back."""

    name: str
    file: int
    path: str
    text: str

    @property
    def is_log_write(self) -> bool:
        return self.path.endswith(".log") and self.name in ("write", "pwrite64", "writev")

    @property
    def is_log_sync(self) -> bool:
        synced = self.name in ("fdatasync", "fsync") and self.text.endswith("= 0")
        return self.path.endswith(".log") and synced

    @property
    def answer(self) -> str | None:
        found = re.search(r'"(\w+)\\n"', self.text)
        return found[1] if found and self.file == 1 and self.name == "write" else None


def test_every_answer_comes_after_its_write_and_the_sync_of_it(tmp_path: Path) -> None:
    calls = trace(tmp_path)

    answered: list[str] = []
    since: list[Call] = []
    for call in calls:
        if call.answer in ANSWERS:
            assert_that_all_is_synced(call.answer, since)
            answered.append(call.answer)
        since = [] if call.answer else [*since, call]

    assert len(answered) == 6 * ROUNDS


def assert_that_all_is_synced(answer: str | None, calls: list[Call]) -> None:
    written = [number for number, call in enumerate(calls) if call.is_log_write]
    synced = [number for number, call in enumerate(calls) if call.is_log_sync]
    assert written, f"{answer}: nothing was written"
    assert synced, f"{answer}: nothing was synced"
    assert written[-1] < synced[-1], f"{answer}: the last write was not synced"


def trace(path: Path) -> list[Call]:
    """The calls of a process that answers, in the order in which they came back."""
    if shutil.which("strace") is None:
        if os.environ.get("CI") == "true":
            pytest.fail("strace must be installed where this counts")
        pytest.skip("strace is not installed, so the order of system calls cannot be seen")
    output = path / "trace"
    what = "trace=fdatasync,fsync,write,pwrite64,writev"
    done = subprocess.run(
        [
            "strace",
            "-f",
            "-y",
            "-e",
            what,
            "-o",
            str(output),
            *command("sync_probe", path / "store"),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    return parse(output.read_text())


def parse(text: str) -> list[Call]:
    """A call that another thread interrupted counts where it is resumed."""
    calls: list[Call] = []
    waiting: dict[str, Call] = {}
    for line in filter(None, map(LINE.match, text.splitlines())):
        if line["again"]:
            begun = waiting.pop(line["thread"], None)
            if begun:
                calls.append(begun._replace(text=begun.text + line["end"]))
            continue
        call = Call(line["call"], int(line["file"]), line["path"], line["rest"])
        if call.text.endswith("<unfinished ...>"):
            waiting[line["thread"]] = call
        else:
            calls.append(call)
    return calls


def test_a_sync_that_had_not_come_back_does_not_count() -> None:
    trace = """\
7  write(5</s/000004.log>, "x", 1) = 1
8  fdatasync(5</s/000004.log> <unfinished ...>
7  write(1</dev/null>, "pushed\\n", 7) = 7
8  <... fdatasync resumed>) = 0
"""
    calls = parse(trace)

    assert [call.name for call in calls] == ["write", "write", "fdatasync"]
    with pytest.raises(AssertionError, match="nothing was synced"):
        assert_that_all_is_synced("pushed", calls[:1])
