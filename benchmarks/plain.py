"""The ceiling: plain ASGI on uvicorn that decodes the same bodies, answers, and has no queue.

python -m benchmarks.plain PORT
"""

import sys
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import uvicorn

from skep.wire.message.push import PushBody

decode = msgspec.json.Decoder(PushBody).decode
encode = msgspec.json.Encoder().encode


async def app(
    scope: dict[str, Any],
    receive: Callable[[], Awaitable[dict[str, Any]]],
    send: Callable[[dict[str, Any]], Awaitable[None]],
) -> None:
    event = await receive()
    body = event["body"]
    while event.get("more_body"):
        event = await receive()
        body += event["body"]
    items = decode(body).items
    answer = encode(
        [{"index": n, "status": "queued", "queueName": item.queue} for n, item in enumerate(items)]
    )
    headers = [(b"content-length", b"%d" % len(answer)), (b"content-type", b"application/json")]
    await send({"type": "http.response.start", "status": 201, "headers": headers})
    await send({"type": "http.response.body", "body": answer})


if __name__ == "__main__":
    uvicorn.run(
        app,
        port=int(sys.argv[1]),
        http="httptools",
        loop="uvloop",
        ws="none",
        lifespan="off",
        access_log=False,
        proxy_headers=False,
        log_level="error",
    )
