"""How soon a consumer that waits at one server is woken by a push to another, on one PostgreSQL.

    make bench-wakeup

Few messages, so that consumers wait; beside it the same with both at one server.
"""

import statistics

from benchmarks.latency import measure
from benchmarks.postgres import database, postgres, skep
from benchmarks.report import Report, parse

RATE = 17
"""Per second, which no multiple of the twenty looks at the news per second is."""
TIMES = 5
"""Longer than what is asked for each rate: a message is a single measurement here."""


def wake(report: Report, name: str, pushed_at: str, popped_at: str, seconds: float) -> None:
    measure(pushed_at, RATE, 1, popped_at=popped_at)
    taken = measure(pushed_at, RATE, TIMES * seconds, popped_at=popped_at)
    report.value(f"{name}, p50", statistics.median(taken) * 1000, "ms")
    report.value(f"{name}, p99", taken[int(len(taken) * 0.99)] * 1000, "ms (at most 250)")


def main() -> None:
    arguments = parse(__doc__)
    report = Report()
    with postgres() as server, database(server) as url, skep(url) as one, skep(url) as other:
        report.title("from a push to the answer of a long poll")
        wake(report, "at the same server", one, one, arguments.seconds)
        wake(report, "at another server", one, other, arguments.seconds)
    report.save(arguments.save)


if __name__ == "__main__":
    main()
