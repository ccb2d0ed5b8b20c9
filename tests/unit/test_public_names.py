"""What ``import skep`` gives."""

import importlib

import skep


def test_the_public_names_are_sorted_and_there_once() -> None:
    assert list(skep.__all__) == sorted(set(skep.__all__))


def test_every_public_name_can_be_imported() -> None:
    module = importlib.import_module("skep")

    assert [name for name in skep.__all__ if not hasattr(module, name)] == []


def test_a_star_import_gives_the_public_names_and_no_more() -> None:
    names: dict[str, object] = {}

    exec("from skep import *", names)

    assert sorted(names.keys() - {"__builtins__"}) == list(skep.__all__)
