-- Dead letters, traces, outcomes, entries.

-- name: dead_letters
SELECT d.queue, d.number, d.partition, d.at_offset, d.consumer_group, d.error, d.attempts,
       d.failed_at, d.payload, d.transaction_id, d.trace_id, d.producer, d.created_at, d.encrypted
  FROM queen.dead_letter AS d
  JOIN queen.queue AS q ON q.number = d.queue
 WHERE d.queue = $1
   AND ($2::text IS NULL OR d.consumer_group = $2)
   AND ($3::bigint IS NULL OR d.partition = $3)
   AND ($4::bigint IS NULL OR d.failed_at >= $4)
   AND ($5::bigint IS NULL OR d.failed_at < $5)
   AND ($6::bigint IS NULL OR d.number < $6)
 ORDER BY d.number DESC
 LIMIT $7;

-- name: count_dead_letters
SELECT count(*)
  FROM queen.dead_letter AS d
  JOIN queen.queue AS q ON q.number = d.queue
 WHERE d.queue = $1
   AND ($2::text IS NULL OR d.consumer_group = $2)
   AND ($3::bigint IS NULL OR d.partition = $3)
   AND ($4::bigint IS NULL OR d.failed_at >= $4)
   AND ($5::bigint IS NULL OR d.failed_at < $5);

-- name: find_dead_letter
SELECT d.queue, d.number, d.partition, d.at_offset, d.consumer_group, d.error, d.attempts,
       d.failed_at, d.payload, d.transaction_id, d.trace_id, d.producer, d.created_at, d.encrypted
  FROM queen.dead_letter AS d
  JOIN queen.queue AS q ON q.number = d.queue
 WHERE d.queue = $1 AND d.number = $2;

-- name: given_up
SELECT d.at_offset, d.consumer_group, d.number
  FROM queen.dead_letter AS d
 WHERE d.partition = $1 AND d.at_offset >= $2 AND d.at_offset < $3
 ORDER BY d.at_offset, d.consumer_group;

-- name: trace_events
SELECT partition, at_offset, number, kind, data, consumer_group, worker, created_at, names
  FROM queen.trace_event
 WHERE partition = $1 AND at_offset = $2
 ORDER BY number;

-- name: named_events
SELECT e.partition, e.at_offset, e.number, e.kind, e.data, e.consumer_group, e.worker,
       e.created_at, e.names
  FROM queen.trace_name AS n
  JOIN queen.trace_event AS e USING (partition, at_offset, number)
 WHERE n.name = $1 AND ($2::bigint IS NULL OR n.number < $2)
   AND NOT EXISTS (SELECT FROM queen.queue_removal AS r
                     JOIN queen.partition AS p ON p.queue = r.queue
                    WHERE p.number = n.partition)
 ORDER BY n.number DESC
 LIMIT $3;

-- name: trace_names
SELECT n.name, count(*), count(DISTINCT (n.partition, n.at_offset)), max(n.created_at)
  FROM queen.trace_name AS n
 WHERE n.name > $1
   AND NOT EXISTS (SELECT FROM queen.queue_removal AS r
                     JOIN queen.partition AS p ON p.queue = r.queue
                    WHERE p.number = n.partition)
 GROUP BY n.name
 ORDER BY n.name
 LIMIT $2;

-- name: forget_outcomes
DELETE FROM queen.outcome
 WHERE name IN (SELECT name FROM queen.outcome WHERE created_at < $1
                 ORDER BY created_at LIMIT $2)
RETURNING 1;

-- name: find_entries
-- One by one: for a join PostgreSQL might read all entries of the space.
SELECT e.space, e.key, e.value, e.version, e.updated_at
  FROM unnest($2::bytea[]) WITH ORDINALITY AS a (hash, n)
 CROSS JOIN LATERAL (
       SELECT f.* FROM queen.entry AS f WHERE f.space = $1 AND f.hash = a.hash LIMIT 1
       ) AS e
 ORDER BY a.n;

-- name: list_entries
SELECT space, key, value, version, updated_at
  FROM queen.entry
 WHERE space = $1
   AND left(key, 500) >= left(greatest($2::text COLLATE "C", $3::text COLLATE "C"), 500)
   AND starts_with(key, $2) AND key > $3
   AND left(key, 500) <= left($2, 500) || repeat(U&'\+10FFFF', 500)
 ORDER BY left(key, 500), key
 LIMIT $4;

-- name: statistics
SELECT (SELECT id FROM queen.store LIMIT 1),
       (SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class AS c
         WHERE c.relnamespace = 'queen'::regnamespace AND c.relkind = 'r'),
       (SELECT count(*) FROM queen.dead_letter AS d
          JOIN queen.queue AS q ON q.number = d.queue);
