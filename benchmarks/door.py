"""The server beside the ceiling of what serves it, in one run, with wrk.

    make bench

The ceiling is plain ASGI on the same uvicorn, which decodes the same bodies, answers, and has no
queue behind it. wrk, the server and the ceiling share the cores of one machine.
"""

import os
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks import sdk
from benchmarks.latency import measure as messages_through
from benchmarks.payloads import ORDERS, in_file
from benchmarks.report import Report, directory, parse

CONNECTIONS = 32
SCRIPTS = Path(__file__).parent / "wrk"
SIZES = (1, 10, 100)
TURNS = 3


@contextmanager
def process(*command: str) -> Iterator[str]:
    """A server in a process of its own; gives its URL when it listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    running = subprocess.Popen(
        [sys.executable, "-m", *(part.replace("PORT", str(port)) for part in command)],
        stdout=subprocess.DEVNULL,
    )
    try:
        _wait_for(port)
        yield f"http://127.0.0.1:{port}"
    finally:
        running.terminate()
        running.wait()


def _wait_for(port: int) -> None:
    until = time.monotonic() + 30
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except OSError:
            if time.monotonic() > until:
                raise
            time.sleep(0.05)
        else:
            return


@contextmanager
def skep() -> Iterator[str]:
    with directory() as path:
        arguments = ("--store", str(path), "--port", "PORT", "--log-level", "error")
        with process("skep", "serve", *arguments) as url:
            yield url


def wrk(script: str, url: str, seconds: float, **environment: object) -> str:
    done = subprocess.run(
        [
            *("wrk", "-t1", f"-c{CONNECTIONS}", f"-d{max(1, round(seconds))}s"),
            *("-s", str(SCRIPTS / script), url),
        ],
        env={**os.environ, **{name: str(value) for name, value in environment.items()}},
        capture_output=True,
        text=True,
        check=True,
    )
    if "Non-2xx" in done.stdout:
        raise RuntimeError(done.stdout)
    return done.stdout


def figure(output: str, name: str) -> float:
    line = next(line for line in output.splitlines() if line.startswith(name))
    return float(line.split()[-1])


def push(
    url: str,
    size: int,
    seconds: float,
    *,
    partitions: int = 100,
    ids: int = 0,
    payloads: list[str] = ORDERS,
) -> float:
    """Messages per second."""
    with in_file(payloads) as file:
        settings = {"MESSAGES": size, "PARTITIONS": partitions, "IDS": ids, "PAYLOADS": file}
        output = wrk("push.lua", f"{url}/api/v1/push", seconds, **settings)
    return figure(output, "Requests/sec") * size


def pushes(report: Report, seconds: float) -> None:
    for size in SIZES:
        ceilings, plain, chosen = [], [], []
        # In turns, because machines have moods: each rate has its ceiling beside it.
        for _ in range(TURNS):
            with process("benchmarks.plain", "PORT") as url:
                ceilings.append(push(url, size, seconds))
            with skep() as url:
                plain.append(push(url, size, seconds))
            with skep() as url:
                chosen.append(push(url, size, seconds, ids=1))
        report.rate(f"ceiling, pushes of {size}", statistics.median(ceilings))
        for name, rates in ((f"push {size}", plain), (f"push {size}, chosen ids", chosen)):
            beside = [rate / ceiling for rate, ceiling in zip(rates, ceilings, strict=True)]
            ratio = statistics.median(beside)
            report.rate(name, statistics.median(rates), ceiling=ratio)
    with skep() as url:
        report.rate("push 1, one partition", push(url, 1, seconds, partitions=1))
    with skep() as url:
        report.rate("push 100, 10,000 partitions", push(url, 100, seconds, partitions=10_000))


def consumption(report: Report, seconds: float) -> None:
    for size in SIZES:
        with skep() as url:
            push(url, 100, 2 * seconds)
            output = wrk("consume.lua", url, seconds, MESSAGES=size)
            report.rate(f"pop + ack {size}", figure(output, "settled"))


def clients(report: Report, seconds: float) -> None:
    with skep() as url:
        produced, consumed = sdk.measure(url, round(50_000 * seconds))
    report.rate("producer", produced)
    report.rate("consumer", consumed)


def latency(report: Report, seconds: float) -> None:
    half = report.figures["push 1"] / 2
    with skep() as url:
        taken = messages_through(url, half, 2 * seconds)
    report.rate("pushes of 1, half of what was taken above", half)
    report.value("end to end, p50", statistics.median(taken) * 1000, "ms (at most 5)")
    report.value("end to end, p99", taken[int(len(taken) * 0.99)] * 1000, "ms (at most 25)")


def main() -> None:
    arguments = parse(__doc__)
    report = Report()
    report.title(f"pushes over {CONNECTIONS} connections")
    pushes(report, arguments.seconds)
    report.title("consumption")
    consumption(report, arguments.seconds)
    report.title("the SDK, from Python to Python")
    clients(report, arguments.seconds)
    report.title("latency of a message, from the push to a consumer that waits")
    latency(report, arguments.seconds)
    report.save(arguments.save)


if __name__ == "__main__":
    main()
