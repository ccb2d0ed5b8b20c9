-- Rows of a copy between stores, unchanged.

-- name: load_queue
-- It may be loaded again, changed, even after it was deleted and purged.
WITH listed AS (
    DELETE FROM queen.queue_removal WHERE queue = $1
)
INSERT INTO queen.queue (number, name, namespace, task, lease_time, retry_limit, retry_delay,
       priority, max_queue_size, ttl, dead_letter_queue, dlq_after_max_retries,
       delayed_processing, window_buffer, max_wait_time_seconds, retention_enabled,
       retention_seconds, completed_retention_seconds, encryption_enabled, created_at, version)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20,
        $21)
    ON CONFLICT (number) DO UPDATE
   SET name = excluded.name, namespace = excluded.namespace, task = excluded.task,
       lease_time = excluded.lease_time, retry_limit = excluded.retry_limit,
       retry_delay = excluded.retry_delay, priority = excluded.priority,
       max_queue_size = excluded.max_queue_size, ttl = excluded.ttl,
       dead_letter_queue = excluded.dead_letter_queue,
       dlq_after_max_retries = excluded.dlq_after_max_retries,
       delayed_processing = excluded.delayed_processing, window_buffer = excluded.window_buffer,
       max_wait_time_seconds = excluded.max_wait_time_seconds,
       retention_enabled = excluded.retention_enabled,
       retention_seconds = excluded.retention_seconds,
       completed_retention_seconds = excluded.completed_retention_seconds,
       encryption_enabled = excluded.encryption_enabled, created_at = excluded.created_at,
       version = excluded.version;

-- name: load_partitions
INSERT INTO queen.partition (number, queue, name, created_at, start_offset, end_offset, newest_at)
SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[], $5::bigint[],
                     $6::bigint[], $7::bigint[]);

-- name: load_subscriptions
INSERT INTO queen.subscription (queue, consumer_group, id, mode, from_at, created_at)
SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[]);

-- name: load_heads
INSERT INTO queen.lane_head (queue, lane, position)
SELECT * FROM unnest($1::bigint[], $2::integer[], $3::bigint[]);

-- name: load_removals
INSERT INTO queen.removal (queue, number, partition, kind, messages, executed_at)
SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::text[], $5::bigint[],
                     $6::bigint[]);

-- name: load_outcomes
INSERT INTO queen.outcome (name, fingerprint, outcome, created_at)
SELECT * FROM unnest($1::text[], $2::bytea[], $3::bytea[], $4::bigint[])
    ON CONFLICT (name) DO NOTHING;

-- name: load_entries
INSERT INTO queen.entry (space, hash, key, value, version, updated_at)
SELECT * FROM unnest($1::text[], $2::bytea[], $3::text[], $4::bytea[], $5::bigint[], $6::bigint[])
    ON CONFLICT (space, hash) DO NOTHING;

-- name: reserve_numbers
SELECT setval('queen.number', $1::bigint)
  FROM queen.number WHERE last_value - (NOT is_called)::integer < $1::bigint;

-- name: last_number
SELECT last_value - (NOT is_called)::integer FROM queen.number;

-- name: other_servers
-- Servers that hold a lane or a duty. One that has renewed neither for a minute is not counted.
SELECT count(*) FROM (
    SELECT owner FROM queen.lane WHERE expires_at > clock_timestamp()
     UNION
    SELECT owner FROM queen.duty WHERE expires_at > clock_timestamp()
) AS alive
 WHERE owner <> $1;

-- name: all_events
SELECT e.partition, e.at_offset, e.number, e.kind, e.data, e.consumer_group, e.worker,
       e.created_at, e.names
  FROM queen.trace_event AS e
  JOIN queen.partition AS p ON p.number = e.partition
 WHERE p.queue = $1 AND (e.partition, e.at_offset, e.number) > ($2::bigint, $3::bigint, $4::bigint)
 ORDER BY e.partition, e.at_offset, e.number
 LIMIT $5;

-- name: all_entries
SELECT space, key, value, version, updated_at
  FROM queen.entry
 WHERE (space, hash) > ($1::text COLLATE "C", $2::bytea)
 ORDER BY space, hash
 LIMIT $3;

-- name: all_outcomes
SELECT name, fingerprint, outcome, created_at
  FROM queen.outcome
 WHERE name > $1
 ORDER BY name
 LIMIT $2;
