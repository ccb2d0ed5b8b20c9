"""Maintenance through a client."""

from skep import AsyncClient, Broker
from skep.model.maintenance import MaintenanceState
from tests.support.broker_builders import drafts
from tests.support.faulty_transport import Fault, Weather


async def test_pushes_are_laid_aside_until_it_ends(client: AsyncClient, broker: Broker) -> None:
    begun = await client.maintenance.set_pushing(True)
    (receipt,) = await client.push("orders", drafts(1))

    assert begun == MaintenanceState(pushing=True, popping=False, aside=0)
    assert await client.maintenance.get() == MaintenanceState(pushing=True, popping=False, aside=1)
    assert receipt.offset == -1
    assert not (await client.maintenance.set_pushing(False)).pushing
    assert await broker.pop("orders", wait=30) is not None


async def test_pops_find_nothing_until_it_ends(client: AsyncClient) -> None:
    await client.push("orders", drafts(1))

    assert (await client.maintenance.set_popping(True)).popping
    assert await client.pop("orders") is None
    assert not (await client.maintenance.set_popping(False)).popping
    assert await client.pop("orders") is not None


async def test_a_switch_whose_answer_is_lost_is_switched_again(
    client: AsyncClient, weather: Weather
) -> None:
    weather.coming.append(Fault.ANSWER_LOST)

    assert (await client.maintenance.set_popping(True)).popping
    assert weather.count("/system/maintenance/pop") == 2
