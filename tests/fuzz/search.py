"""Rounds until the time is over, and what they found, by rule."""

import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

from tests.fuzz import concurrent, differential
from tests.fuzz.operation import Step
from tests.fuzz.round_options import Options
from tests.fuzz.shrinker import shrink

DIFFERENTIAL, CONCURRENT = "differential", "concurrent"
SLICE = 15.0
"""Seconds of differential rounds between two concurrent ones."""
EXAMPLES = 3
"""Rounds that are named for each rule."""


@dataclass
class Found:
    """A rule that was broken: how often, and where it was seen first."""

    count: int = 0
    seeds: list[str] = field(default_factory=list)


class Search:
    def __init__(
        self,
        kept: Path,
        *,
        ignored: Sequence[str] = (),
        keep_going: bool = False,
    ) -> None:
        self._kept = kept
        self._ignored = ignored
        self._keep_going = keep_going
        self._found: dict[str, Found] = {}
        self._rounds = {DIFFERENTIAL: 0, CONCURRENT: 0}
        self._requests = {DIFFERENTIAL: 0, CONCURRENT: 0}
        self._seconds = {DIFFERENTIAL: 0.0, CONCURRENT: 0.0}

    @property
    def failed(self) -> bool:
        return any(not self._is_ignored(rule) for rule in self._found)

    def run(self, seed: str, seconds: float, kinds: Sequence[str]) -> None:
        """Alternate between the kinds of rounds; stop at the first failure unless told not to."""
        print(f"seed {seed}, {seconds:g} seconds, histories of failures in {self._kept}")
        deadline = time.monotonic() + seconds
        number = 0
        while time.monotonic() < deadline:
            for kind in kinds:
                until = min(deadline, time.monotonic() + SLICE)
                while time.monotonic() < until:
                    number += 1
                    self.play(f"{seed}-{kind[0]}{number}")
                    if self.failed and not self._keep_going:
                        return
                    if kind == CONCURRENT:
                        break

    def play(self, seed: str) -> None:
        """One round, drawn from its own seed alone."""
        kind = CONCURRENT if seed.rpartition("-")[2].startswith("c") else DIFFERENTIAL
        began = time.monotonic()
        try:
            if kind == CONCURRENT:
                self._play_concurrent(seed)
            else:
                self._play_differential(seed)
        except Exception as error:
            if self._note(f"{kind}.{type(error).__name__}", seed):
                print(f"\nround {seed} ended early:\n{traceback.format_exc()}")
        self._rounds[kind] += 1
        self._seconds[kind] += time.monotonic() - began

    def summarise(self) -> None:
        for kind, rounds in self._rounds.items():
            if rounds:
                rate = self._requests[kind] / max(self._seconds[kind], 0.001)
                print(f"{rounds} {kind} rounds, {self._requests[kind]} requests, {rate:.0f}/s")
        for rule, found in sorted(self._found.items(), key=lambda item: -item[1].count):
            note = " (ignored)" if self._is_ignored(rule) else ""
            print(f"{found.count:6}  {rule}{note}  in {' '.join(found.seeds)}")

    def _play_differential(self, seed: str) -> None:
        played = differential.play(seed)
        self._requests[DIFFERENTIAL] += played.requests
        print(f"round {seed}: {played.options.line()}")
        if played.difference is None or not self._note(played.difference.rule, seed):
            return
        found = played.difference
        print(f"\nround {seed} breaks {found.rule}\n{found.explanation}")
        if not self._keep_going:
            steps = self._shorten(played.options, played.steps[: found.step], found.rule)
            print(f"shortest way there that was found, {played.options.servers} servers:")
            for step in steps:
                print(f"  {step}")
            print(f"unheard: {' '.join(played.options.unheard)}")

    def _play_concurrent(self, seed: str) -> None:
        place = self._kept / seed
        played = concurrent.play(seed, place)
        self._requests[CONCURRENT] += played.requests
        print(f"round {seed}: {played.options.line()}")
        for rule, explanations in played.broken.items():
            if self._note(rule, seed):
                print(f"\nround {seed} breaks {rule}, {len(explanations)} times:")
                for explanation in explanations[:5]:
                    print(f"  {explanation}")
                print(f"its history is in {place}")

    def _shorten(self, options: Options, steps: Sequence[Step], rule: str) -> Sequence[Step]:
        def fails(some: Sequence[Step]) -> bool:
            found = differential.replay(options, some)
            return found is not None and found.rule == rule

        return shrink(steps, fails)

    def _note(self, rule: str, seed: str) -> bool:
        """Count a failure; whether it is the first of its rule, and to be shown."""
        found = self._found.setdefault(rule, Found())
        found.count += 1
        if found.count <= EXAMPLES:
            found.seeds.append(seed)
        return found.count == 1 and not self._is_ignored(rule)

    def _is_ignored(self, rule: str) -> bool:
        return any(fnmatch(rule, pattern) for pattern in self._ignored)
