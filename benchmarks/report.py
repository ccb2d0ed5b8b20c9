"""What every benchmark needs: a place to work, and a report that prints as it goes."""

import argparse
import json
import platform
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class Report:
    """Prints as it goes, and keeps the figures."""

    def __init__(self) -> None:
        self.figures: dict[str, float] = {}

    def title(self, text: str) -> None:
        print(f"\n{text}\n{'-' * len(text)}", flush=True)

    def rate(self, name: str, rate: float, **ratios: float) -> None:
        """A rate, and what it is of the rates beside it."""
        self.figures[name] = round(rate)
        for of, ratio in ratios.items():
            self.figures[f"{name}, of {of}"] = round(ratio, 2)
        beside = "".join(f"{ratio:8.2f} of {of}" for of, ratio in ratios.items())
        print(f"  {name:44} {rate:12,.0f} messages/s {beside}", flush=True)

    def save(self, path: Path | None) -> None:
        """Keep the figures with the machine they are of, if there is a place for them."""
        if path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            machine = {"python": platform.python_version(), "machine": platform.machine()}
            path.write_text(json.dumps({**machine, **self.figures}, indent=2) + "\n")

    def value(self, name: str, value: float, unit: str) -> None:
        self.figures[name] = round(value, 3)
        print(f"  {name:44} {value:12,.3f} {unit}", flush=True)


@contextmanager
def directory() -> Iterator[Path]:
    path = Path(tempfile.mkdtemp(prefix="skep-bench-"))
    try:
        yield path / "data"
    finally:
        shutil.rmtree(path, ignore_errors=True)


def parser(about: str | None) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--seconds", type=float, default=2.0, help="for each rate")
    parser.add_argument("--save", type=Path, help="a file for the figures, as JSON")
    return parser


def parse(about: str | None) -> argparse.Namespace:
    return parser(about).parse_args()
