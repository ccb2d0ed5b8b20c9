-- The state of the schema.

-- name: wait_for_migrations
-- A migration may take long, and so may waiting for that of another server.
SELECT set_config('statement_timeout', '0', true), set_config('lock_timeout', '0', true);

-- name: lock_migrations
-- One server at a time. The lock ends with the transaction.
SELECT pg_advisory_xact_lock(hashtext('queen.migration'));

-- name: wait_briefly_for_tables
-- Statements on a table wait for a migration that waits for its lock. PostgreSQL cancels an autovacuum
-- that holds the lock after deadlock_timeout, so this is a little longer.
SELECT set_config('lock_timeout', (setting::integer + 500)::text, true)
  FROM pg_settings WHERE name = 'deadlock_timeout';

-- name: create_migrations
CREATE SCHEMA IF NOT EXISTS queen;
CREATE TABLE IF NOT EXISTS queen.migration (
    number     integer PRIMARY KEY,
    name       text NOT NULL,
    checksum   text NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- name: has_migrations
-- Whether there is our own table of migrations, by its columns: other programs have one, too.
SELECT count(*) = 4 FROM pg_attribute
 WHERE attrelid = to_regclass('queen.migration') AND NOT attisdropped
   AND attname IN ('number', 'name', 'checksum', 'applied_at');

-- name: foreign_relations
-- What the schema holds, except indexes and TOAST. An empty one may have been created for Skep.
SELECT relname::text FROM pg_class
 WHERE relnamespace = to_regnamespace('queen') AND relkind NOT IN ('i', 'I', 't')
 UNION
SELECT proname || '()' FROM pg_proc WHERE pronamespace = to_regnamespace('queen')
 ORDER BY 1;

-- name: lock_holders
-- Transactions that hold locks on our tables, the oldest first.
SELECT coalesce(string_agg(holder.name, ', ' ORDER BY holder.xact_start), 'others')
  FROM (SELECT format('process %s (%s)', a.pid,
                      coalesce(nullif(a.application_name, ''), a.usename, a.backend_type)) AS name,
               a.xact_start
          FROM pg_stat_activity AS a
         WHERE a.pid <> pg_backend_pid()
           AND EXISTS (SELECT FROM pg_locks AS l JOIN pg_class AS c ON c.oid = l.relation
                        WHERE l.pid = a.pid AND l.granted
                          AND c.relnamespace = to_regnamespace('queen'))
           AND a.datname = current_database()
         ORDER BY a.xact_start
         LIMIT 3) AS holder;

-- name: applied_migrations
SELECT number, name, checksum, applied_at FROM queen.migration ORDER BY number;

-- name: put_migration
INSERT INTO queen.migration (number, name, checksum) VALUES ($1, $2, $3);
