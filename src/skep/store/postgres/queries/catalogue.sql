-- Queues, partitions, subscriptions.

-- name: put_queue
INSERT INTO queen.queue AS known (number, name, namespace, task, lease_time, retry_limit,
       retry_delay, priority, max_queue_size, ttl, dead_letter_queue, dlq_after_max_retries,
       delayed_processing, window_buffer, max_wait_time_seconds, retention_enabled,
       retention_seconds, completed_retention_seconds, encryption_enabled, created_at, version)
VALUES (nextval('queen.number'), $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14,
        $15, $16, $17, $18, $19, nextval('queen.number'))
    ON CONFLICT (name) DO UPDATE
   SET namespace = excluded.namespace, task = excluded.task, lease_time = excluded.lease_time,
       retry_limit = excluded.retry_limit, retry_delay = excluded.retry_delay,
       priority = excluded.priority, max_queue_size = excluded.max_queue_size,
       ttl = excluded.ttl, dead_letter_queue = excluded.dead_letter_queue,
       dlq_after_max_retries = excluded.dlq_after_max_retries,
       delayed_processing = excluded.delayed_processing,
       window_buffer = excluded.window_buffer,
       max_wait_time_seconds = excluded.max_wait_time_seconds,
       retention_enabled = excluded.retention_enabled,
       retention_seconds = excluded.retention_seconds,
       completed_retention_seconds = excluded.completed_retention_seconds,
       encryption_enabled = excluded.encryption_enabled, version = excluded.version
RETURNING *;

-- name: find_queue
-- Locked, so that it is not deleted before this transaction ends.
SELECT * FROM queen.queue WHERE name = $1 FOR KEY SHARE;

-- name: queue
SELECT * FROM queen.queue WHERE number = $1;

-- name: queues
SELECT * FROM queen.queue ORDER BY number;

-- name: delete_queue
DELETE FROM queen.queue WHERE number = $1 RETURNING 1;

-- name: create_partitions
-- In the order of their names, so that two servers that create the same ones do not deadlock. Without
-- a join, whose plan would depend on statistics that are outdated when many were created.
INSERT INTO queen.partition (number, queue, name, created_at)
SELECT nextval('queen.number'), $1, asked.name, $3
  FROM (SELECT DISTINCT name COLLATE "C" AS name FROM unnest($2::text[]) AS a (name)
         ORDER BY 1) AS asked
 WHERE EXISTS (SELECT FROM queen.queue WHERE number = $1)
    ON CONFLICT (queue, name) DO NOTHING
RETURNING number, queue, name, created_at, start_offset, end_offset,
          0::bigint AS first_at, newest_at;

-- name: partitions_named
SELECT p.number, p.queue, p.name, p.created_at, p.start_offset, p.end_offset, p.first_at,
       p.newest_at
  FROM queen.partition_state AS p
  JOIN queen.queue AS q ON q.number = p.queue
 WHERE p.queue = $1 AND p.name = ANY ($2::text[]);

-- name: partitions_numbered
SELECT p.number, p.queue, p.name, p.created_at, p.start_offset, p.end_offset, p.first_at,
       p.newest_at
  FROM queen.partition_state AS p
  JOIN queen.queue AS q ON q.number = p.queue
 WHERE p.queue = $1 AND p.number = ANY ($2::bigint[]);

-- name: partitions
SELECT p.number, p.queue, p.name, p.created_at, p.start_offset, p.end_offset, p.first_at,
       p.newest_at
  FROM queen.partition_state AS p
  JOIN queen.queue AS q ON q.number = p.queue
 WHERE p.queue = $1 AND p.number > $2
 ORDER BY p.number
 LIMIT $3;

-- name: consumers
SELECT c.partition, c.consumer_group, c.version, c.cursor_offset, c.acked, c.run_end, c.attempt,
       c.retries, c.ready_at, c.oldest_at, c.lease_id, c.granted_at, c.expires_at, c.next_at,
       c.completed, c.failed, c.messages_consumed, c.batches_consumed, c.last_consumed_at, c.token
  FROM queen.consumer AS c
  JOIN queen.subscription AS s USING (queue, consumer_group)
 WHERE c.queue = $1 AND c.subscription = s.id
   AND EXISTS (SELECT FROM queen.queue WHERE number = $1)
 ORDER BY c.partition, c.consumer_group;

-- name: consumers_of
SELECT c.partition, c.consumer_group, c.version, c.cursor_offset, c.acked, c.run_end, c.attempt,
       c.retries, c.ready_at, c.oldest_at, c.lease_id, c.granted_at, c.expires_at, c.next_at,
       c.completed, c.failed, c.messages_consumed, c.batches_consumed, c.last_consumed_at, c.token
  FROM queen.subscription AS s
  JOIN queen.consumer AS c USING (queue, consumer_group)
 WHERE s.queue = $1 AND c.subscription = s.id AND c.partition = ANY ($2::bigint[]);

-- name: group_states
SELECT c.partition, c.consumer_group, c.version, c.cursor_offset, c.acked, c.run_end, c.attempt,
       c.retries, c.ready_at, c.oldest_at, c.lease_id, c.granted_at, c.expires_at, c.next_at,
       c.completed, c.failed, c.messages_consumed, c.batches_consumed, c.last_consumed_at, c.token
  FROM queen.subscription AS s
  JOIN queen.consumer AS c USING (queue, consumer_group)
 WHERE s.queue = $1 AND s.consumer_group = $2 AND c.subscription = s.id AND c.partition > $3
 ORDER BY c.partition
 LIMIT $4;

-- name: subscriptions
SELECT s.queue, s.consumer_group, s.id AS subscription, s.mode, s.from_at,
       s.created_at AS subscribed_at
  FROM queen.subscription AS s
  JOIN queen.queue AS q ON q.number = s.queue
 WHERE s.queue = $1
 ORDER BY s.consumer_group;

-- name: subscribe
-- Returns no row if the group is subscribed already, or if the queue does not exist.
INSERT INTO queen.subscription (queue, consumer_group, id, mode, from_at, created_at)
SELECT $1, $2, $3, $4, $5, $6
 WHERE EXISTS (SELECT FROM queen.queue WHERE number = $1)
    ON CONFLICT (queue, consumer_group) DO NOTHING
RETURNING 1;

-- name: delete_subscription
DELETE FROM queen.subscription WHERE queue = $1 AND consumer_group = $2;

-- name: list_starting_group
INSERT INTO queen.group_removal (queue, consumer_group, subscription, starting)
VALUES ($1, $2, $3, true);

-- name: renew_starting_group
-- Returns no row if its states are being purged.
UPDATE queen.group_removal SET listed_at = clock_timestamp()
 WHERE queue = $1 AND consumer_group = $2 AND subscription = $3 AND starting
RETURNING 1;

-- name: unlist_starting_group
DELETE FROM queen.group_removal
 WHERE queue = $1 AND consumer_group = $2 AND subscription = $3 AND starting
RETURNING 1;

-- name: give_up_starting_group
UPDATE queen.group_removal SET starting = false
 WHERE queue = $1 AND consumer_group = $2 AND subscription = $3;

-- name: insert_first_consumers
-- Of a subscription that is not committed yet.
INSERT INTO queen.consumer SELECT * FROM unnest($1::queen.consumer[]);
