-- What is known of the schema.

-- name: wait_for_migrations
-- A migration may take long, and so may waiting for that of another server.
SELECT set_config('statement_timeout', '0', true), set_config('lock_timeout', '0', true);

-- name: lock_migrations
-- One server at a time. The lock ends with the transaction.
SELECT pg_advisory_xact_lock(hashtext('queen.migration'));

-- name: create_migrations
CREATE SCHEMA IF NOT EXISTS queen;
CREATE TABLE IF NOT EXISTS queen.migration (
    number     integer PRIMARY KEY,
    name       text NOT NULL,
    checksum   text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- name: has_migrations
SELECT to_regclass('queen.migration') IS NOT NULL;

-- name: applied_migrations
SELECT number, name, checksum, applied_at FROM queen.migration ORDER BY number;

-- name: put_migration
INSERT INTO queen.migration (number, name, checksum) VALUES ($1, $2, $3);
