"""Write the blocking client from the asynchronous one, word by word.

    python tools/generate_sync.py           write the sync_*.py files under src/skep/client
    python tools/generate_sync.py --check   fail if one of them is not what would be written

Every ``async_NAME.py`` becomes a ``sync_NAME.py``: ``async`` and ``await`` go, names change by the
rules below, in docstrings and comments too.
"""

import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

CLIENT = Path(__file__).parents[1] / "src" / "skep" / "client"
WITHOUT_TWIN = frozenset({"async_worker.py", "async_producer.py"})
"""Both are built on tasks that can be cancelled; ``worker.py`` is the blocking worker."""
DROPPED = frozenset({"async", "await"})
NAMES = {
    "AsyncBaseTransport": "BaseTransport",
    "StopAsyncIteration": "StopIteration",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "__anext__": "__next__",
    "aclose": "close",
    # Of asyncio only the sleep is used.
    "asyncio": "time",
}
WORD = re.compile(r"\b(?:(?:async|await) +|\w+)")
NOTE = "Generated from ``{}``: change that, then ``make sync``."


def translate(word: str) -> str:
    """A name of the asynchronous client as the blocking one calls it."""
    if word in NAMES:
        return NAMES[word]
    if re.match(r"Async[A-Z]", word):
        return word.removeprefix("Async")
    if word.startswith("async_"):
        return word.removeprefix("a")
    return word


def translate_text(text: str) -> str:
    """The same inside of a docstring or a comment."""
    return WORD.sub(lambda m: "" if m[0].rstrip() in DROPPED else translate(m[0]), text)


def edits(source: str) -> Iterator[tuple[tuple[int, int], tuple[int, int], str]]:
    """From where to where something else must stand, and what."""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.string in DROPPED:
            line, column = token.end
            yield token.start, (line, column + 1), ""
        elif token.type == tokenize.NAME:
            yield token.start, token.end, translate(token.string)
        elif token.type in (tokenize.STRING, tokenize.COMMENT):
            yield token.start, token.end, translate_text(token.string)


def rewrite(source: str) -> str:
    lines = source.splitlines(keepends=True)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    parts: list[str] = []
    at = 0
    for (row, column), (end_row, end_column), text in edits(source):
        start, end = starts[row - 1] + column, starts[end_row - 1] + end_column
        parts += (source[at:start], text)
        at = end
    return "".join(parts) + source[at:]


def with_note(source: str, name: str) -> str:
    """The file under a docstring that says where it comes from."""
    _, docstring, rest = source.split('"""', 2)
    return f'"""{docstring.splitlines()[0]}\n\n{NOTE.format(name)}\n"""{rest}'


def formatted(source: str, target: Path) -> str:
    for command in (["check", "--fix", "--quiet", "--select", "F401,I"], ["format", "--quiet"]):
        done = subprocess.run(
            [sys.executable, "-m", "ruff", *command, "--stdin-filename", str(target), "-"],
            input=source,
            capture_output=True,
            text=True,
            check=True,
        )
        source = done.stdout
    return source


def main() -> None:
    stale = []
    for path in sorted(CLIENT.rglob("async_*.py")):
        if path.name in WITHOUT_TWIN:
            continue
        target = path.with_name(translate(path.name))
        made = formatted(with_note(rewrite(path.read_text()), path.name), target)
        if "--check" not in sys.argv[1:]:
            target.write_text(made)
        elif not target.exists() or target.read_text() != made:
            stale.append(target.name)
    if stale:
        sys.exit(f"{', '.join(stale)} not as their sources say: run `make sync`")


if __name__ == "__main__":
    main()
