"""A public type name has one owner in ``src``."""

import ast
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]

DUPLICATES = {
    "CatalogueRows",
    "Consumer",
    "DeadLetters",
    "EntryRows",
    "Groups",
    "LetterRows",
    "LogRows",
    "Maintenance",
    "Messages",
    "MovingRows",
    "PartitionRows",
    "Pipelines",
    "Queues",
    "RemovingRows",
    "Sink",
    "TraceRows",
    "Traces",
}
"""Names that still have two owners: remove them here when they are renamed, and add none."""


def public_classes() -> Counter[str]:
    """How many modules define each class of a public name; a re-export defines nothing."""
    return Counter(
        node.name
        for path in (ROOT / "src").rglob("*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )


def test_no_public_class_name_gets_a_second_owner() -> None:
    duplicates = {name for name, count in public_classes().items() if count > 1}

    assert duplicates - DUPLICATES == set()
