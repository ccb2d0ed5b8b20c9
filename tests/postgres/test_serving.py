"""``skep serve`` on PostgreSQL: what was pushed is there after the server was killed."""

import signal

from skep import Client, Draft
from tests.support.server_process import ServerProcess


def test_a_server_that_was_killed_left_everything_to_the_next(url: str) -> None:
    with ServerProcess(url) as server:
        with Client(server.url) as client:
            client.push("orders", [Draft(b"%d" % n, "alice") for n in range(5)])
            taken = client.pop("orders", batch=2)
            assert taken
            client.ack(taken)
        server.end(signal.SIGKILL)

    with ServerProcess(url) as again, Client(again.url) as client:
        rest = client.pop("orders", batch=9)

    assert rest
    assert [message.payload for message in rest.messages] == [b"2", b"3", b"4"]
