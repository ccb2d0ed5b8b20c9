"""Which store a URL means."""

from pathlib import Path

import pytest

from skep.errors import Invalid
from skep.store.open import open_store


@pytest.mark.parametrize(
    "url",
    ["", "rocksdb://", "redis://x", "memory://x", "postgres://h/d?pooled=maybe", 5, None, b"x"],
)
def test_what_names_no_store_is_refused_and_nothing_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str
) -> None:
    monkeypatch.chdir(tmp_path)

    with pytest.raises(Invalid) as refused:
        open_store(url)

    assert refused.value.field == "store"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("form", ["{}", "rocksdb://{}"])
async def test_a_directory_is_named_by_a_path_or_by_a_url(tmp_path: Path, form: str) -> None:
    place = tmp_path / "a b"

    store = open_store(form.format(str(place).replace(" ", "%20" if "//" in form else " ")))

    await store.close()
    assert (place / "CURRENT").exists()


async def test_a_directory_may_be_named_from_where_one_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)

    stores = [open_store(url) for url in ("one", "rocksdb://two", Path("three"))]

    for store in stores:
        await store.close()
    assert all((tmp_path / name / "CURRENT").exists() for name in ("one", "two", "three"))
