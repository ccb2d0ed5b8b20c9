"""A public type name has one owner in ``src``."""

import ast
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]


def public_classes() -> Counter[str]:
    """How many modules define each class of a public name; a re-export defines nothing."""
    return Counter(
        node.name
        for path in (ROOT / "src").rglob("*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )


def test_every_public_class_name_has_one_owner() -> None:
    duplicates = {name for name, count in public_classes().items() if count > 1}

    assert duplicates == set()
