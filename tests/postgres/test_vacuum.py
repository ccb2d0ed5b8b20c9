"""Vacuum never takes an exclusive lock on a table that requests use, and comes often enough."""

import asyncpg
import pytest

KEEP_ALL_ROWS = ("migration", "store")
"""Tables that no row is ever deleted from or updated in."""

_OPTIONS = """
SELECT c.relname, t.oid IS NOT NULL AS is_toasted, coalesce(c.reloptions, '{}') AS own,
       coalesce(t.reloptions, '{}') AS toast
  FROM pg_class AS c
  LEFT JOIN pg_class AS t ON t.oid = c.reltoastrelid
 WHERE c.relnamespace = 'queen'::regnamespace AND c.relkind IN ('r', 'p', 'm')
   AND c.relname <> ALL ($1::text[])
 ORDER BY c.relname
"""

_TOAST_SIZE = """
pg_relation_size((SELECT reltoastrelid FROM pg_class WHERE oid = 'queen.entry'::regclass))
"""

_FILL = """
INSERT INTO queen.entry (space, hash, key, value, version, updated_at)
SELECT 'test', sha256(convert_to(n::text, 'UTF8')), n::text,
       (SELECT string_agg(sha256(convert_to(n || '/' || k, 'UTF8')), '')
          FROM generate_series(1, CASE WHEN n % 2 = 0 THEN 3 ELSE 150 END) AS k), 1, 1
  FROM generate_series(1, 200) AS n
"""
"""Rows of a hundred bytes, and rows whose values are too long for the table itself."""


def options(row: asyncpg.Record, which: str) -> dict[str, str]:
    return dict(each.split("=", 1) for each in row[which])


@pytest.fixture
async def tables(sql: asyncpg.Connection) -> list[asyncpg.Record]:
    found: list[asyncpg.Record] = await sql.fetch(_OPTIONS, KEEP_ALL_ROWS)
    return found


def test_no_table_that_rows_leave_is_truncated_by_vacuum(tables: list[asyncpg.Record]) -> None:
    missing = [
        row["relname"] for row in tables if options(row, "own").get("vacuum_truncate") != "off"
    ]
    missing += [
        f"TOAST of {row['relname']}"
        for row in tables
        if row["is_toasted"] and options(row, "toast").get("vacuum_truncate") != "off"
    ]

    assert tables
    assert missing == []


def test_every_table_that_rows_leave_is_vacuumed_before_a_fifth_of_it_is_dead(
    tables: list[asyncpg.Record],
) -> None:
    def factor(row: asyncpg.Record, which: str) -> float:
        return float(options(row, which).get("autovacuum_vacuum_scale_factor", 0.2))

    late = [row["relname"] for row in tables if factor(row, "own") > 0.02]
    late += [
        f"TOAST of {row['relname']}"
        for row in tables
        if row["is_toasted"] and factor(row, "toast") > 0.02
    ]

    assert late == []


@pytest.mark.parametrize("name", ["consumer", "news", "outbox"])
def test_a_table_whose_rows_live_for_seconds_is_vacuumed_by_their_number(
    name: str, tables: list[asyncpg.Record]
) -> None:
    (row,) = [row for row in tables if row["relname"] == name]

    assert options(row, "own")["autovacuum_vacuum_scale_factor"] == "0"
    assert options(row, "own")["autovacuum_vacuum_threshold"] == "5000"


@pytest.mark.parametrize("size", ["pg_relation_size('queen.entry')", _TOAST_SIZE])
async def test_vacuum_keeps_the_space_of_rows_that_left(sql: asyncpg.Connection, size: str) -> None:
    await sql.execute(_FILL)
    before = await sql.fetchval(f"SELECT {size}")

    await sql.execute("DELETE FROM queen.entry")
    await sql.execute("VACUUM queen.entry")

    assert before > 0
    assert await sql.fetchval(f"SELECT {size}") == before
