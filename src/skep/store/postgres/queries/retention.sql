-- Truncating partitions and redacting messages, in short transactions.

-- name: lock_partition
-- Returns no row if its queue was deleted.
SELECT start_offset FROM queen.partition
 WHERE number = $1 AND queue = $2 AND EXISTS (SELECT FROM queen.queue WHERE number = $2)
   FOR NO KEY UPDATE;

-- name: first_kept
SELECT start_offset, first_at FROM queen.partition_state WHERE number = $1;

-- name: oldest_segments
-- The oldest segments that end at an offset or earlier, without their payloads.
SELECT s.start_offset, s.messages, s.transaction_ids
  FROM (SELECT * FROM queen.segment
         WHERE partition = $1 AND start_offset >= $4
         ORDER BY start_offset LIMIT $3) AS s
 WHERE s.start_offset + s.messages <= $2
 ORDER BY s.start_offset;

-- name: delete_segments
-- Delete the segments between two offsets, and keep the ends of the partition and its lanes.
WITH deleted AS (
    DELETE FROM queen.segment
     WHERE partition = $1 AND start_offset >= $2 AND start_offset < $3
    RETURNING queue, lane, position + messages AS position, created_at
), heads AS (
    INSERT INTO queen.lane_head AS known (queue, lane, position)
    SELECT queue, lane, max(position) FROM deleted GROUP BY queue, lane ORDER BY queue, lane
        ON CONFLICT (queue, lane) DO UPDATE
       SET position = greatest(known.position, excluded.position)
)
UPDATE queen.partition AS p
   SET start_offset = $3, end_offset = greatest(p.end_offset, $3),
       newest_at = greatest(p.newest_at, (SELECT max(created_at) FROM deleted))
 WHERE p.number = $1;

-- name: delete_transaction_ids
-- An id may belong to a replayed dead letter by now: then it stays.
DELETE FROM queen.transaction_id AS t
 USING unnest($2::bytea[], $3::bigint[]) AS a (hash, at_offset)
 WHERE t.partition = $1 AND t.hash = a.hash AND t.at_offset = a.at_offset;

-- name: delete_trace_names
DELETE FROM queen.trace_name AS n
 USING queen.trace_event AS e
 WHERE e.partition = $1 AND e.at_offset >= $2 AND e.at_offset < $3
   AND n.name = ANY (e.names) AND n.number = e.number;

-- name: delete_trace_events
DELETE FROM queen.trace_event WHERE partition = $1 AND at_offset >= $2 AND at_offset < $3;

-- name: replace_segment
UPDATE queen.segment
   SET size = $3, payloads = $4, transaction_ids = $5, trace_ids = $6, producers = $7, flags = $8
 WHERE partition = $1 AND start_offset = $2;

-- name: put_removal
INSERT INTO queen.removal (queue, partition, kind, messages, executed_at)
SELECT $1, $2, $3, $4, $5 WHERE EXISTS (SELECT FROM queen.queue WHERE number = $1);

-- name: removals
SELECT r.queue, r.partition, r.kind, r.messages, r.executed_at
  FROM queen.removal AS r
  JOIN queen.queue AS q ON q.number = r.queue
 WHERE r.queue = $1
 ORDER BY r.number DESC
 LIMIT $2;

-- name: forget_removals
-- The oldest first, up to the first that is not old.
WITH oldest AS (
    SELECT number, bool_and(executed_at < $2) OVER (ORDER BY number) AS is_old
      FROM (SELECT number, executed_at FROM queen.removal WHERE queue = $1
             ORDER BY number LIMIT $3) AS first
)
DELETE FROM queen.removal AS r
 USING oldest
 WHERE r.queue = $1 AND r.number = oldest.number AND oldest.is_old
RETURNING 1;
