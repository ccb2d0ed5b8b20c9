"""Limits of a principal and of the server."""

from skep.model.quota import Quota


def test_a_limit_that_is_not_set_is_that_of_the_server() -> None:
    own = Quota(queues=5, groups=0)

    assert own.or_else(Quota(queues=1, groups=1, requests=9)) == Quota(
        queues=5, groups=0, requests=9
    )
