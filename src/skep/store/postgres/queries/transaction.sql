-- How a transaction begins and ends.

-- name: begin
-- The limits are set here and not on the connection: behind a pooler that lends a connection for
-- one transaction, the next one may belong to somebody else.
BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
SET LOCAL statement_timeout = '30s';
SET LOCAL lock_timeout = '10s';
SET LOCAL idle_in_transaction_session_timeout = '30s';

-- name: answer_early
-- What follows is durable with the next commit that waits for the disk.
SET LOCAL synchronous_commit = off;
