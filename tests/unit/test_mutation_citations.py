"""The mutations cite the source as it is now."""

from pathlib import Path

import pytest

from tests.mutation.mutations import MUTATIONS, Mutation

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_mutation_cites_text_that_stands_once_in_its_file(mutation: Mutation) -> None:
    for change in mutation.changes:
        source = (ROOT / "src/skep" / change.file).read_text()
        assert source.count(change.old) == 1, f"{change.file} does not read {change.old!r} once"
        assert change.old != change.new


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_mutation_names_a_test_that_exists(mutation: Mutation) -> None:
    file, _, test = mutation.noticed_by.partition("::")

    assert f"def {test.partition('[')[0]}(" in (ROOT / file).read_text()
