"""The blocking client is what its source says, word by word."""

from tools.generate_sync import CLIENT, formatted, rewrite, translate, with_note


def test_what_waits_becomes_what_blocks() -> None:
    source = '''
    async def close(self) -> None:
        """Usage: ``async with AsyncClient() as client: await client.pop()``."""
        async with self._lock:
            await asyncio.sleep(1)  # await nothing
        await self._http.aclose()
'''

    assert (
        rewrite(source)
        == '''
    def close(self) -> None:
        """Usage: ``with Client() as client: client.pop()``."""
        with self._lock:
            time.sleep(1)  # nothing
        self._http.close()
'''
    )


def test_names_are_changed_whole() -> None:
    assert translate("AsyncClient") == "Client"
    assert translate("AsyncIterator") == "Iterator"
    assert translate("async_client") == "sync_client"
    assert translate("Asynchronous") == "Asynchronous"
    assert translate("awaited") == "awaited"


def test_every_generated_file_is_fresh() -> None:
    for path in CLIENT.glob("async_*.py"):
        target = path.with_name(translate(path.name))

        made = formatted(with_note(rewrite(path.read_text()), path.name), target)

        assert target.read_text() == made
