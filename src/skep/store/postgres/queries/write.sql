-- What a commit writes. Segments are not here: they are copied in.

-- name: move_partitions
-- The new ends of partitions, and how far the lane is in each of their queues.
WITH moved AS (
    UPDATE queen.partition AS p
       SET end_offset = a.end_offset, first_at = a.first_at, newest_at = a.newest_at
      FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[])
           AS a (number, end_offset, first_at, newest_at)
     WHERE p.number = a.number
)
INSERT INTO queen.lane_head (queue, lane, position)
SELECT a.queue, $5, a.position FROM unnest($6::bigint[], $7::bigint[]) AS a (queue, position)
    ON CONFLICT (queue, lane) DO UPDATE SET position = excluded.position;

-- name: put_transaction_ids
-- A replayed dead letter takes its id over.
INSERT INTO queen.transaction_id (partition, hash, at_offset)
SELECT * FROM unnest($1::bigint[], $2::bytea[], $3::bigint[])
    ON CONFLICT (partition, hash) DO UPDATE SET at_offset = excluded.at_offset;

-- name: update_consumers
-- States whose rows are locked.
UPDATE queen.consumer AS c
   SET version = a.version, cursor_offset = a.cursor_offset, acked = a.acked,
       run_end = a.run_end, attempt = a.attempt, retries = a.retries, ready_at = a.ready_at,
       oldest_at = a.oldest_at, lease_id = a.lease_id, granted_at = a.granted_at,
       expires_at = a.expires_at, next_at = a.next_at, completed = a.completed,
       failed = a.failed, messages_consumed = a.messages_consumed,
       batches_consumed = a.batches_consumed, last_consumed_at = a.last_consumed_at
  FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::text[], $5::bigint[], $6::bigint[],
              $7::text[], $8::bigint[], $9::integer[], $10::integer[], $11::bigint[],
              $12::bigint[], $13::text[], $14::bigint[], $15::bigint[], $16::bigint[],
              $17::bigint[], $18::text[], $19::bigint[], $20::bigint[], $21::bigint[])
       AS a (queue, consumer_group, partition, subscription, version, cursor_offset, acked,
             run_end, attempt, retries, ready_at, oldest_at, lease_id, granted_at, expires_at,
             next_at, completed, failed, messages_consumed, batches_consumed, last_consumed_at)
 WHERE c.queue = a.queue AND c.consumer_group = a.consumer_group AND c.partition = a.partition;

-- name: insert_consumers
-- States that had no row to lock, or one of a subscription that is no more. If somebody made one
-- in the meantime, fewer rows come back than were sent.
INSERT INTO queen.consumer AS known
SELECT a.*
  FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::text[], $5::bigint[], $6::bigint[],
              $7::text[], $8::bigint[], $9::integer[], $10::integer[], $11::bigint[],
              $12::bigint[], $13::text[], $14::bigint[], $15::bigint[], $16::bigint[],
              $17::bigint[], $18::text[], $19::bigint[], $20::bigint[], $21::bigint[])
       AS a (queue, consumer_group, partition, subscription, version, cursor_offset, acked,
             run_end, attempt, retries, ready_at, oldest_at, lease_id, granted_at, expires_at,
             next_at, completed, failed, messages_consumed, batches_consumed, last_consumed_at)
 ORDER BY a.queue, a.consumer_group, a.partition
    ON CONFLICT (queue, consumer_group, partition) DO UPDATE
   SET subscription = excluded.subscription, version = excluded.version,
       cursor_offset = excluded.cursor_offset, acked = excluded.acked,
       run_end = excluded.run_end, attempt = excluded.attempt, retries = excluded.retries,
       ready_at = excluded.ready_at, oldest_at = excluded.oldest_at,
       lease_id = excluded.lease_id, granted_at = excluded.granted_at,
       expires_at = excluded.expires_at, next_at = excluded.next_at,
       completed = excluded.completed, failed = excluded.failed,
       messages_consumed = excluded.messages_consumed,
       batches_consumed = excluded.batches_consumed,
       last_consumed_at = excluded.last_consumed_at
 WHERE known.subscription <> excluded.subscription
RETURNING 1;

-- name: delete_dead_letters
DELETE FROM queen.dead_letter AS d
 USING unnest($1::bigint[], $2::bigint[]) AS a (queue, number)
 WHERE d.queue = a.queue AND d.number = a.number;

-- name: put_dead_letters
INSERT INTO queen.dead_letter (queue, number, partition, at_offset, consumer_group, error,
       attempts, failed_at, payload, transaction_id, trace_id, producer, created_at, encrypted)
SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[],
                     $6::text[], $7::integer[], $8::bigint[], $9::bytea[], $10::text[],
                     $11::bytea[], $12::text[], $13::bigint[], $14::boolean[]);

-- name: put_trace_event
INSERT INTO queen.trace_event (partition, at_offset, number, kind, data, consumer_group, worker,
       created_at, names)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9);

-- name: put_trace_names
INSERT INTO queen.trace_name (name, number, partition, at_offset, created_at)
SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::bigint[]);

-- name: put_outcomes
INSERT INTO queen.outcome (name, fingerprint, outcome, created_at)
SELECT * FROM unnest($1::text[], $2::bytea[], $3::bytea[], $4::bigint[]);

-- name: put_entries
INSERT INTO queen.entry (space, hash, key, value, version, updated_at)
SELECT * FROM unnest($1::text[], $2::bytea[], $3::text[], $4::bytea[], $5::bigint[], $6::bigint[])
       AS a (space, hash, key, value, version, updated_at)
 ORDER BY a.space, a.hash
    ON CONFLICT (space, hash) DO UPDATE
   SET value = excluded.value, version = excluded.version, updated_at = excluded.updated_at;

-- name: insert_entries
INSERT INTO queen.entry (space, hash, key, value, version, updated_at)
SELECT * FROM unnest($1::text[], $2::bytea[], $3::text[], $4::bytea[], $5::bigint[], $6::bigint[])
       AS a (space, hash, key, value, version, updated_at)
 ORDER BY a.space, a.hash
    ON CONFLICT (space, hash) DO NOTHING
RETURNING 1;

-- name: delete_entries
DELETE FROM queen.entry AS e
 USING unnest($1::text[], $2::bytea[]) AS a (space, hash)
 WHERE e.space = a.space AND e.hash = a.hash;

-- name: append_at_once
-- A whole commit of pushes, if the lane is ours and partitions and heads are as they were known.
-- If one of them is not, the division fails, and with it everything.
WITH held AS MATERIALIZED (
    SELECT number FROM queen.lane WHERE number = $1 AND owner = $2 FOR NO KEY UPDATE
), moved AS (
    UPDATE queen.partition AS p
       SET end_offset = a.end_offset, first_at = a.first_at, newest_at = a.newest_at
      FROM held
     CROSS JOIN unnest($3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
                       $8::bigint[], $9::bigint[])
           AS a (number, queue, start_offset, end_before, end_offset, first_at, newest_at)
     WHERE p.number = a.number AND p.queue = a.queue
       AND p.start_offset = a.start_offset AND p.end_offset = a.end_before
       AND EXISTS (SELECT FROM queen.queue AS q WHERE q.number = a.queue)
    RETURNING 1
), advanced AS (
    UPDATE queen.lane_head AS h
       SET position = a.position
      FROM unnest($10::bigint[], $11::bigint[], $12::bigint[]) AS a (queue, before, position)
     WHERE h.queue = a.queue AND h.lane = $1 AND h.position = a.before
    RETURNING 1
), made AS (
    INSERT INTO queen.segment SELECT * FROM unnest($13::queen.segment[])
), told AS (
    INSERT INTO queen.news (lane, number, content)
    SELECT $1, coalesce((SELECT max(n.number) FROM queen.news AS n WHERE n.lane = $1), 0) + 1, $14
      FROM held
    RETURNING number
)
SELECT coalesce((SELECT number FROM told), 0)
     / ((SELECT count(*) FROM moved) = cardinality($3::bigint[])
        AND (SELECT count(*) FROM advanced) = cardinality($10::bigint[]))::integer;
