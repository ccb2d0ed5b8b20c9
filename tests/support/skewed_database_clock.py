"""A database whose clock can be set, without touching that of the machine.

The store asks for ``clock_timestamp()`` by its plain name, so a function of that name which is
found earlier is asked instead.
"""

import asyncpg

SKEW = """
CREATE SCHEMA skew;
CREATE TABLE skew.jump (ahead interval NOT NULL);
INSERT INTO skew.jump VALUES ('0');
CREATE FUNCTION skew.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE
    AS 'SELECT pg_catalog.clock_timestamp() + ahead FROM skew.jump';
DO $$ BEGIN
    EXECUTE format('ALTER DATABASE %I SET search_path = skew, pg_catalog', current_database());
END $$;
"""
"""For a new database, before a store connects to it."""


async def set_clock(sql: asyncpg.Connection, *, hours_ahead: int) -> None:
    await sql.execute("UPDATE skew.jump SET ahead = make_interval(hours => $1)", hours_ahead)
