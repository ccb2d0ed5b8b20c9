"""Ids of leases: random UUIDs that only their principal can use."""

from uuid import UUID

from skep.model.lease_id import is_bound, new_lease_id, worker_id_of
from skep.model.name import check_lease_id


def test_an_id_is_bound_to_its_principal_and_to_no_other() -> None:
    lease = new_lease_id("key:a")

    assert is_bound(lease, "key:a")
    assert not is_bound(lease, "key:b")
    assert not is_bound(lease, "")
    assert not is_bound(new_lease_id(None), "key:a")


def test_an_id_is_a_random_uuid() -> None:
    leases = {new_lease_id("key:a") for _ in range(1000)}

    assert len(leases) == 1000
    assert {UUID(lease).version for lease in leases} == {4}
    assert all(check_lease_id("lease", lease.upper()) == lease for lease in leases)


def test_the_id_that_is_shown_does_not_contain_that_of_the_lease() -> None:
    lease = new_lease_id("key:a")

    assert lease[:8] not in worker_id_of(lease)
    assert worker_id_of(lease) == worker_id_of(lease) != worker_id_of(new_lease_id("key:a"))
