"""What ``import skep`` gives."""

import ast
import importlib
from pathlib import Path

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


def test_what_type_checkers_read_is_what_is_loaded() -> None:
    tree = ast.parse(Path(str(skep.__file__)).read_text())
    read = {
        alias.name: f"{node.module}"
        for block in tree.body
        if isinstance(block, ast.If)
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }

    assert sorted(read) == list(skep.__all__)
    assert all(
        getattr(skep, name) is getattr(importlib.import_module(home), name)
        for name, home in read.items()
    )


def test_a_name_that_is_not_public_is_not_there() -> None:
    assert not hasattr(skep, "Nothing")
    assert set(skep.__all__) <= set(dir(skep))
