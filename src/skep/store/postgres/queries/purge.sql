-- Deletes the rows of deleted queues and groups, a bounded number in each transaction. Each statement
-- starts at a key: the index entries before it belong to rows that were just deleted.

-- name: next_removal
-- The deleted queue to purge next, unless another server purges it.
SELECT r.queue, r.emptied FROM queen.queue_removal AS r
 WHERE (NOT r.emptied OR r.deleted_at < clock_timestamp() - interval '1 minute')
   AND NOT EXISTS (SELECT FROM queen.queue AS q WHERE q.number = r.queue)
 ORDER BY r.queue
 LIMIT 1
   FOR UPDATE SKIP LOCKED;

-- name: set_emptied
UPDATE queen.queue_removal SET emptied = true WHERE queue = $1;

-- name: delete_removal
DELETE FROM queen.queue_removal WHERE queue = $1;

-- name: purge_segments
DELETE FROM queen.segment WHERE ctid = ANY (ARRAY(
    SELECT s.ctid FROM queen.segment AS s
     WHERE s.queue = $1 AND (s.lane, s.position) >= ($2::integer, $3::bigint)
     ORDER BY s.lane, s.position
     LIMIT $4))
RETURNING lane, position;

-- name: purge_batch
-- Lock some partitions. A transaction that waits for one of them finds that it does not exist.
SELECT p.number, p.name FROM queen.partition AS p
 WHERE p.number = ANY (ARRAY(
       SELECT f.number FROM queen.partition AS f
        WHERE f.queue = $1 AND f.name >= $2
        ORDER BY f.name
        LIMIT $3))
 ORDER BY p.number
   FOR UPDATE;

-- name: purge_messages
-- What partitions have besides segments, up to a number of rows of each kind; returns how many were
-- deleted of each.
WITH ids AS (
    DELETE FROM queen.transaction_id WHERE ctid = ANY (ARRAY(
        SELECT t.ctid FROM unnest($1::bigint[]) AS p (number)
         CROSS JOIN LATERAL (
               SELECT t.ctid FROM queen.transaction_id AS t WHERE t.partition = p.number
                ORDER BY t.hash LIMIT $2
               ) AS t
         LIMIT $2))
    RETURNING 1
), events AS (
    DELETE FROM queen.trace_event WHERE ctid = ANY (ARRAY(
        SELECT e.ctid FROM unnest($1::bigint[]) AS p (number)
         CROSS JOIN LATERAL (
               SELECT e.ctid FROM queen.trace_event AS e WHERE e.partition = p.number
                ORDER BY e.at_offset, e.number LIMIT $2
               ) AS e
         LIMIT $2))
    RETURNING number, names
), names AS (
    DELETE FROM queen.trace_name AS n
     USING events AS e
     WHERE n.name = ANY (e.names) AND n.number = e.number
)
SELECT (SELECT count(*) FROM ids), (SELECT count(*) FROM events);

-- name: purge_partitions
DELETE FROM queen.partition WHERE number = ANY ($1::bigint[]);

-- name: purge_consumers
DELETE FROM queen.consumer WHERE ctid = ANY (ARRAY(
    SELECT c.ctid FROM queen.consumer AS c
     WHERE c.queue = $1 AND (c.consumer_group, c.partition) >= ($2::text COLLATE "C", $3::bigint)
     ORDER BY c.consumer_group, c.partition
     LIMIT $4))
RETURNING consumer_group, partition;

-- name: purge_dead_letters
DELETE FROM queen.dead_letter WHERE ctid = ANY (ARRAY(
    SELECT d.ctid FROM queen.dead_letter AS d
     WHERE d.queue = $1 AND d.number >= $2
     ORDER BY d.number
     LIMIT $3))
RETURNING number;

-- name: purge_removals
DELETE FROM queen.removal WHERE ctid = ANY (ARRAY(
    SELECT r.ctid FROM queen.removal AS r
     WHERE r.queue = $1 AND r.number >= $2
     ORDER BY r.number
     LIMIT $3))
RETURNING number;

-- name: purge_heads
DELETE FROM queen.lane_head WHERE ctid = ANY (ARRAY(
    SELECT h.ctid FROM queen.lane_head AS h
     WHERE h.queue = $1 AND h.lane >= $2
     ORDER BY h.lane
     LIMIT $3))
RETURNING lane;

-- name: next_group_removal
-- The deleted group to purge next, unless another server purges it.
SELECT r.queue, r.consumer_group, r.subscription, r.starting, r.emptied
  FROM queen.group_removal AS r
 WHERE (NOT (r.starting OR r.emptied) OR r.listed_at < clock_timestamp() - interval '1 minute')
   AND NOT EXISTS (SELECT FROM queen.subscription AS s
                    WHERE s.queue = r.queue AND s.consumer_group = r.consumer_group
                      AND s.id = r.subscription)
 ORDER BY r.queue, r.consumer_group, r.subscription
 LIMIT 1
   FOR UPDATE OF r SKIP LOCKED;

-- name: set_group_emptied
UPDATE queen.group_removal SET emptied = true
 WHERE queue = $1 AND consumer_group = $2 AND subscription = $3;

-- name: delete_group_removal
DELETE FROM queen.group_removal WHERE queue = $1 AND consumer_group = $2 AND subscription = $3;

-- name: purge_group
DELETE FROM queen.consumer WHERE ctid = ANY (ARRAY(
    SELECT c.ctid FROM queen.consumer AS c
     WHERE c.queue = $1 AND c.consumer_group = $2 AND c.subscription = $3 AND c.partition >= $4
     ORDER BY c.partition
     LIMIT $5))
RETURNING partition;
