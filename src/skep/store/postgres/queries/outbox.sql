-- Rows that applications insert in their own transactions.

-- name: read_outbox
-- The first committed rows of queues that are not in $1, up to a number of rows and bytes. A payload
-- that is too large for a message is not fetched.
SELECT w.number, w.queue, w.partition, w.transaction_id, w.size,
       CASE WHEN w.size <= $4 THEN w.payload END AS payload
  FROM (
       SELECT f.*, sum(f.fetched) OVER (ORDER BY f.number) - f.fetched AS bytes_before
         FROM (
              SELECT o.number, o.queue, o.partition, o.transaction_id, o.payload,
                     octet_length(o.payload) AS size,
                     CASE WHEN octet_length(o.payload) <= $4 THEN octet_length(o.payload) ELSE 0 END
                         AS fetched
                FROM queen.outbox AS o
               WHERE o.failed_at IS NULL AND o.queue <> ALL ($1::text[])
               ORDER BY o.number
               LIMIT $2
              ) AS f
       ) AS w
 WHERE w.bytes_before < $3
 ORDER BY w.number;

-- name: lock_outbox
-- A row that another session has locked is skipped: a commit carries the pushes of many clients, and
-- does not wait for an operator's transaction.
SELECT number FROM queen.outbox
 WHERE number = ANY ($1::bigint[]) AND failed_at IS NULL
 ORDER BY number FOR UPDATE SKIP LOCKED;

-- name: delete_outbox
DELETE FROM queen.outbox WHERE number = ANY ($1::bigint[]);

-- name: refuse_outbox
UPDATE queen.outbox SET error = $2, failed_at = clock_timestamp()
 WHERE number = $1 AND failed_at IS NULL;
