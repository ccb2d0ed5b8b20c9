"""Every statement is asked for, is right, and finds its rows by an index however many there are."""

import json
import re
from collections.abc import AsyncIterator, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import UUID

import asyncpg
import pytest

import skep.store.postgres
from skep.store.postgres.migrate import apply
from skep.store.postgres.sql import QUERIES, parse

PACKAGE = Path(skep.store.postgres.__file__).parent
NOBODY = UUID(int=0)

HOT: dict[str, tuple[Any, ...]] = {
    "lock_partitions": (0, NOBODY, [5, 7], ["maintenance"], [b"h"]),
    "locked_partitions": (0, [5, 7]),
    "read_consumers": ([1], ["g"], [5]),
    "known_transaction_ids": ([5, 5], [b"a", b"b"]),
    "segments_holding": ([5], [0]),
    "lock_dead_letters": ([1], [3]),
    "letters_of_messages": ([5], [0], ["g"]),
    "recorded_outcomes": (["k"],),
    "replace_consumers": ([1], ["g"], [5], ["s"], [1], [0], []),
    "insert_consumers": ([],),
    "commit_at_once": (
        *(0, NOBODY, [5], [1], [0], [1], [0], []),
        *([1], ["g"], [5], ["s"], [1], [0], ["l"], [1], ["g"], ["s"], []),
        *([1], [0], ["maintenance"], [b"h"], b""),
    ),
    "publish_event": (0, NOBODY, b""),
    "peer_events": ([0, 1], [99_000, 0], NOBODY, False),
    "queue_versions": ([1],),
    "entry_versions": (["maintenance"], [b"h"]),
    "pushed": ([1],),
    "read_outbox": (["full"], 500, 4 << 20, 4 << 20),
    "lock_outbox": ([5, 7],),
    "delete_outbox": ([5, 7],),
    "read_segments": (5, 0, 10, 1000),
    "read_journal": (1, 0, 5, 10),
    "read_journal_backwards": (1, 0, 5, 10),
    "read_places": (1, 0, 5, 10),
    "find_offset": (5, b"a"),
    "offset_at": (5, 1),
    "find_trace": (b"t" * 16, 10),
    "partitions_named": (1, ["p5"]),
    "oldest_segments": (5, 9, 100, 0),
    "delete_segments": (5, 0, 9),
    "heads": (1,),
    "first_kept": (5,),
    "trace_events": (5, 0),
    "given_up": (5, 0, 9),
    "purge_segments": (1, -1, -1, 100),
    "purge_batch": (1, "", 100),
    "purge_messages": ([1, 2], 100),
    "purge_partitions": ([1, 2],),
    "purge_consumers": (1, "", -1, 100),
    "purge_dead_letters": (1, -1, 100),
}
"""What is asked for each message, with arguments."""

ASKED = list(range(1, 200, 2))
_HASHES = [sha256(str(n).encode()).digest() for n in ASKED]
_MANY = len(ASKED)

MANY: dict[str, tuple[Any, ...]] = {
    "create_partitions": (1, [f"new{n}" for n in ASKED], 0),
    "partitions_named": (1, [f"p{n}" for n in ASKED]),
    "partitions_numbered": (1, ASKED),
    "consumers_of": (1, ASKED),
    "lock_partitions": (0, NOBODY, ASKED, ["s"] * _MANY, _HASHES),
    "locked_partitions": (0, ASKED),
    "read_consumers": ([1] * _MANY, ["g"] * _MANY, ASKED),
    "known_transaction_ids": (ASKED, _HASHES),
    "find_entries": ("s", _HASHES),
    "lock_entries": (["s"] * _MANY, _HASHES),
    "segments_holding": (ASKED, [0] * _MANY),
    "letters_of_messages": (ASKED, [0] * _MANY, ["g"] * _MANY),
    "replace_consumers": (
        *([1] * _MANY, ["g"] * _MANY, ASKED, ["s"] * _MANY, [1] * _MANY, [0] * _MANY, []),
    ),
}
"""What is asked for many partitions at once, with arguments."""

FILL = """
INSERT INTO queen.queue (number, name, created_at) VALUES (1, 'orders', 0);
INSERT INTO queen.lane VALUES (0, '00000000-0000-0000-0000-000000000000', 'infinity');
INSERT INTO queen.lane_head VALUES (1, 0, 100000);
INSERT INTO queen.news SELECT 0, n, 'x' FROM generate_series(1, 100000) AS n;
INSERT INTO queen.partition (number, queue, name, created_at)
SELECT n, 1, 'p' || n, 0 FROM generate_series(1, 100000) AS n;
INSERT INTO queen.segment
SELECT n, 0, 1, 0, n, 1, 1, 0, '{x}', NULL, ARRAY[sha256(n::text::bytea)], NULL, NULL
  FROM generate_series(1, 100000) AS n;
INSERT INTO queen.transaction_id
SELECT n, sha256(n::text::bytea), 0 FROM generate_series(1, 100000) AS n;
INSERT INTO queen.subscription VALUES (1, 'g', 's', 'all', NULL, 0);
INSERT INTO queen.consumer
SELECT 1, 'g', n, 's', 1, 0, NULL, 0, 0, 0, 0, 0, NULL, NULL, NULL, NULL, NULL, NULL, 0, 0, 0, 0
  FROM generate_series(1, 100000) AS n;
INSERT INTO queen.dead_letter
SELECT 1, n, n, 0, 'g', 'e', 1, 0, 'x', NULL, NULL, NULL, 0, false
  FROM generate_series(1, 100000) AS n;
INSERT INTO queen.trace_event
SELECT n, 0, n, 'info', 'x', NULL, NULL, 0, '{}' FROM generate_series(1, 100000) AS n;
INSERT INTO queen.trace_name
SELECT 'n' || n, n, n, 0, 0 FROM generate_series(1, 100000) AS n;
INSERT INTO queen.outbox (queue, payload, failed_at)
SELECT 'orders', 'x', CASE WHEN n <= 50000 THEN now() END FROM generate_series(1, 100000) AS n;
INSERT INTO queen.entry
SELECT 's', sha256(n::text::bytea), 'k' || n, 'x', 1, 0 FROM generate_series(1, 100000) AS n;
INSERT INTO queen.outcome SELECT 'k' || n, 'x', 'x', 0 FROM generate_series(1, 100000) AS n;
ANALYZE;
"""


@pytest.fixture
async def filled(sql: asyncpg.Connection) -> asyncpg.Connection:
    await sql.execute(FILL)
    return sql


@pytest.fixture
async def outgrown(bare_url: str) -> AsyncIterator[asyncpg.Connection]:
    """Tables that have grown since their statistics were taken."""
    sql = await asyncpg.connect(bare_url)
    await apply(sql)
    await sql.execute(FILL.replace("(1, 100000)", "(1, 1)"))
    await sql.execute("SELECT setval('queen.number', 100000)")
    for statement in re.findall(r"INSERT[^;]*generate_series[^;]*;", FILL):
        await sql.execute(statement.replace("(1, 100000)", "(2, 100000)"))
    yield sql
    await sql.close()


def test_every_statement_is_used() -> None:
    code = "".join(path.read_text() for path in PACKAGE.rglob("*.py"))

    assert [name for name in QUERIES if f'"{name}"' not in code] == []


def test_no_python_file_holds_sql() -> None:
    verbs = re.compile(r'"\s*(SELECT|INSERT|UPDATE|DELETE|WITH)\b')

    assert [path.name for path in PACKAGE.rglob("*.py") if verbs.search(path.read_text())] == []


def test_a_file_of_statements_is_taken_apart_by_their_names() -> None:
    text = "-- a file\n\n-- name: one\n-- why\nSELECT 1;\n\n-- name: two\nSELECT 2;\n"

    assert list(parse(text)) == [("one", "-- why\nSELECT 1;"), ("two", "SELECT 2;")]


@pytest.mark.parametrize("name", [n for n in QUERIES if n not in ("begin", "create_migrations")])
async def test_every_statement_can_be_prepared(sql: asyncpg.Connection, name: str) -> None:
    assert await sql.prepare(QUERIES[name])


async def test_hot_statements_find_their_rows_by_an_index(filled: asyncpg.Connection) -> None:
    scans: dict[str, list[str]] = {}
    for name, arguments in HOT.items():
        async with filled.transaction():
            await filled.execute("SET LOCAL plan_cache_mode = force_generic_plan")
            statement = "EXPLAIN " + QUERIES[name].rstrip(";")
            plan = [row[0] for row in await filled.fetch(statement, *arguments)]
        scans[name] = [
            line.strip()
            for line in plan
            if re.search(
                r"Seq Scan on (?!lane\b|queue\b|queue_removal\b|lane_head\b|subscription\b)", line
            )
        ]

    assert {name: found for name, found in scans.items() if found} == {}


async def test_asking_for_many_partitions_reads_only_these_whatever_the_statistics_say(
    outgrown: asyncpg.Connection,
) -> None:
    read: dict[str, int] = {}
    for name, arguments in MANY.items():
        statement = f"EXPLAIN (ANALYZE, FORMAT JSON) {QUERIES[name].rstrip(';')}"
        (plan,) = json.loads(await outgrown.fetchval(statement, *arguments))
        read[name] = max(_rows_read(plan["Plan"]))

    assert {name: rows for name, rows in read.items() if rows > 2 * _MANY} == {}


def _rows_read(node: dict[str, Any]) -> Iterator[int]:
    """How many rows each step of a plan looks at, in all its runs."""
    dropped = [node.get(f"Rows Removed by {by}", 0) for by in ("Filter", "Join Filter")]
    yield node["Actual Loops"] * (node["Actual Rows"] + sum(dropped))
    for each in node.get("Plans", ()):
        yield from _rows_read(each)
