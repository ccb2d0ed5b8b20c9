-- How a transaction starts.

-- name: begin
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;

-- name: timeline
-- Changes with every failover. Not every PostgreSQL service allows the call.
SELECT CASE WHEN NOT pg_is_in_recovery()
            THEN substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8) END;

-- name: settings
-- For this transaction only, or for the whole connection. Every statement reads by key: a plan that was
-- made and cached while a table was small must not scan the whole table later. A commit is durable,
-- even if synchronous_commit is off by default. A session that is idle in a transaction is ended,
-- because other sessions wait for its locks.
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
