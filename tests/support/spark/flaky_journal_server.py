"""A server that speaks the journal's contract and breaks off as it is told.

It stands in for connections that fail: what the real server answers is tested with the real one.
"""

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pyarrow as pa

ENDINGS: dict[str, dict[str, Any]] = {
    "error": {"error": "the store is away", "status": 503, "again": True},
    "refusal": {"error": "there is no key", "status": 409, "again": False},
}
SCHEMA = pa.schema([("payload", pa.string())])


@dataclass
class Flaky:
    """What goes wrong with each request: ``cut``, ``end``, ``503`` or one of ``ENDINGS``."""

    faults: list[str] = field(default_factory=list)
    missing: Sequence[Sequence[int]] = ()
    asked: list[Any] = field(default_factory=list)
    url: str = ""

    def next(self, body: Any) -> str:
        self.asked.append(body)
        return self.faults.pop(0) if self.faults else ""

    def answer(self, ranges: Sequence[Sequence[int]], fault: str) -> bytes:
        out = pa.BufferOutputStream()
        with pa.ipc.new_stream(out, SCHEMA) as writer:
            for number, (lane, position, rows) in enumerate(batches(ranges)):
                if number == 2 and fault == "end":
                    break
                told: dict[str, Any] = {"lanes": {str(lane): position}}
                if number == 0:
                    told["missing"] = self.missing
                if number == 1 and fault in ENDINGS:
                    told, rows = ENDINGS[fault], []
                batch = pa.record_batch([pa.array(rows, pa.string())], schema=SCHEMA)
                writer.write_batch(batch, custom_metadata={"skep": json.dumps(told)})
                if fault in ENDINGS and number == 1:
                    break
        content: bytes = out.getvalue().to_pybytes()
        return content


def batches(ranges: Sequence[Sequence[int]]) -> Iterator[tuple[int, int, list[str]]]:
    for lane, start, end in ranges:
        for at in range(start, end, 10):
            upto = min(end, at + 10)
            yield lane, upto, [f"{lane}/{k}" for k in range(at, upto)]


@contextmanager
def flaky(*faults: str, missing: Sequence[Sequence[int]] = ()) -> Iterator[Flaky]:
    told = Flaky(list(faults), missing)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            fault = told.next(body)
            if fault.isdecimal():
                self._send(int(fault), b'{"error": "not now"}')
            elif "ranges" in body:
                self._send(200, told.answer(body["ranges"], fault), cut=fault == "cut")
            else:
                self._send(200, json.dumps({"body": body}).encode())

        def _send(self, status: int, content: bytes, *, cut: bool = False) -> None:
            self.send_response(status)
            self.send_header("Transfer-Encoding", "chunked")
            self.send_header("Retry-After", "0")
            self.end_headers()
            middle = len(content) * 2 // 3
            parts = [content[:middle]] if cut else [content[:middle], content[middle:], b""]
            for part in parts:
                self.wfile.write(b"%x\r\n%s\r\n" % (len(part), part))
            self.close_connection = True

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    told.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield told
    finally:
        server.shutdown()
        server.server_close()
