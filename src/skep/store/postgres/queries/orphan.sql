-- Rows of queues that do not exist and were not deleted, as after a partial restore.

-- name: orphan_queues
-- From one queue to the next in the indexes, however many rows lie between them.
WITH RECURSIVE of_segments (queue) AS (
    (SELECT s.queue FROM queen.segment AS s ORDER BY s.queue DESC LIMIT 1)
    UNION ALL
    SELECT n.queue
      FROM of_segments AS o
     CROSS JOIN LATERAL (
           SELECT s.queue FROM queen.segment AS s WHERE s.queue < o.queue
            ORDER BY s.queue DESC LIMIT 1
           ) AS n
), of_partitions (queue) AS (
    (SELECT p.queue FROM queen.partition AS p ORDER BY p.queue DESC LIMIT 1)
    UNION ALL
    SELECT n.queue
      FROM of_partitions AS o
     CROSS JOIN LATERAL (
           SELECT p.queue FROM queen.partition AS p WHERE p.queue < o.queue
            ORDER BY p.queue DESC LIMIT 1
           ) AS n
)
SELECT f.queue
  FROM (SELECT queue FROM of_segments UNION SELECT queue FROM of_partitions) AS f
 WHERE NOT EXISTS (SELECT FROM queen.queue AS q WHERE q.number = f.queue)
   AND NOT EXISTS (SELECT FROM queen.queue_removal AS r WHERE r.queue = f.queue)
 ORDER BY f.queue;

-- name: measure_orphans
-- The rows of such queues, counted up to a limit of each kind.
SELECT n.queue, p.partitions, s.segments, s.messages, s.bytes
  FROM unnest($1::bigint[]) AS n (queue)
 CROSS JOIN LATERAL (
       SELECT count(*) AS partitions
         FROM (SELECT FROM queen.partition WHERE queue = n.queue LIMIT $2) AS f
       ) AS p
 CROSS JOIN LATERAL (
       SELECT count(*) AS segments, coalesce(sum(f.messages), 0)::bigint AS messages,
              coalesce(sum(f.size), 0)::bigint AS bytes
         FROM (SELECT messages, size FROM queen.segment WHERE queue = n.queue LIMIT $2) AS f
       ) AS s
 ORDER BY n.queue;

-- name: count_segments
-- All segments, counted up to a limit.
SELECT count(*) FROM (SELECT FROM queen.segment ORDER BY queue LIMIT $1) AS s;

-- name: discard_orphans
INSERT INTO queen.queue_removal (queue) SELECT unnest($1::bigint[]) ON CONFLICT DO NOTHING;
