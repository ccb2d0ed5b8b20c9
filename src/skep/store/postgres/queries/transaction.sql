-- How a transaction begins.

-- name: begin
-- The limits are set here and not on the connection: behind a pooler that lends a connection for
-- one transaction, the next one may belong to somebody else. Everything we do is by key; a plan
-- that was made while a table was small, and is kept, must not read the whole of it later. What
-- was answered is on disk, also if the server is set up to be careless.
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
SELECT set_config('statement_timeout', '30s', true),
       set_config('lock_timeout', '10s', true),
       set_config('idle_in_transaction_session_timeout', '30s', true),
       set_config('enable_seqscan', 'off', true),
       set_config('enable_hashjoin', 'off', true),
       set_config('enable_mergejoin', 'off', true),
       set_config('jit', 'off', true),
       set_config('synchronous_commit',
                  CASE current_setting('synchronous_commit')
                  WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, true);
