-- How a transaction begins.

-- name: begin
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;

-- name: timeline
-- It is another one after every failover. Not every kind of PostgreSQL tells.
SELECT CASE WHEN NOT pg_is_in_recovery()
            THEN substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8) END;

-- name: settings
-- For this transaction only, or for the whole connection. Everything we do is by key: a plan that
-- was made while a table was small, and is kept, must not read the whole of it later. What was
-- answered is on disk, also if the server is set up to be careless. Whoever is silent in the middle
-- of a transaction is gone: until it is ended, others wait for its locks.
SELECT set_config('statement_timeout', '30s', $1),
       set_config('lock_timeout', '10s', $1),
       set_config('idle_in_transaction_session_timeout', '10s', $1),
       set_config('enable_seqscan', 'off', $1),
       set_config('enable_hashjoin', 'off', $1),
       set_config('enable_mergejoin', 'off', $1),
       set_config('jit', 'off', $1),
       set_config('plan_cache_mode', 'force_generic_plan', $1),
       set_config('synchronous_commit',
                  CASE current_setting('synchronous_commit')
                  WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, $1);

-- name: has_synchronous_standby
-- Whether COMMIT waits for a standby. It may change while servers run.
SELECT current_setting('synchronous_standby_names') <> '';
