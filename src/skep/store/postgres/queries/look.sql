-- What a commit must know, and lock, before it judges its changes. Rows are locked in one order
-- by everybody: the lane, partitions by number, consumers by their key, dead letters by number,
-- rows of the outbox, entries by their key.

-- name: lock_partitions
-- The partitions of these numbers whose queues exist, with where the lane stands in each queue,
-- and whether the lane is still ours. The time of the last row is after all locks were taken.
WITH held AS MATERIALIZED (
    SELECT number FROM queen.lane WHERE number = $1 AND owner = $2 FOR NO KEY UPDATE
), locked AS MATERIALIZED (
    SELECT * FROM queen.partition
     WHERE number = ANY ($3::bigint[]) AND EXISTS (SELECT FROM held)
     ORDER BY number
       FOR NO KEY UPDATE
)
SELECT locked.number, locked.queue, locked.name, locked.created_at, locked.start_offset,
       locked.end_offset, locked.first_at, locked.newest_at,
       -- A head that somebody deleted is found again behind the last segment.
       coalesce(head.position, (
           SELECT s.position + s.messages FROM queen.segment AS s
            WHERE s.queue = locked.queue AND s.lane = $1
            ORDER BY s.position DESC LIMIT 1
       ), 0) AS head,
       (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now,
       queue.number IS NOT NULL AS has_queue
  FROM held
  LEFT JOIN locked ON true
  LEFT JOIN queen.queue AS queue ON queue.number = locked.queue
  LEFT JOIN queen.lane_head AS head ON head.queue = locked.queue AND head.lane = $1;

-- name: lock_consumers
-- For each place asked: the group's subscription, whether the partition is there, the state.
WITH asked AS MATERIALIZED (
    SELECT * FROM unnest($1::bigint[], $2::text[], $3::bigint[]) AS a (queue, consumer_group, partition)
), locked AS MATERIALIZED (
    SELECT consumer.*
      FROM asked
      JOIN queen.consumer AS consumer USING (queue, consumer_group, partition)
     ORDER BY consumer.queue, consumer.consumer_group, consumer.partition
       FOR NO KEY UPDATE OF consumer
)
SELECT asked.queue, asked.consumer_group, asked.partition, subscription.id, subscription.mode,
       subscription.from_at, subscription.created_at,
       EXISTS (SELECT FROM queen.partition AS p JOIN queen.queue AS q ON q.number = p.queue
                WHERE p.number = asked.partition AND p.queue = asked.queue),
       (extract(epoch FROM clock_timestamp()) * 1000000)::bigint,
       locked.version, locked.cursor_offset, locked.acked, locked.run_end, locked.attempt,
       locked.retries, locked.ready_at, locked.oldest_at, locked.lease_id, locked.granted_at,
       locked.expires_at, locked.next_at, locked.completed, locked.failed,
       locked.messages_consumed, locked.batches_consumed, locked.last_consumed_at
  FROM asked
  LEFT JOIN queen.subscription AS subscription
       ON subscription.queue = asked.queue AND subscription.consumer_group = asked.consumer_group
  LEFT JOIN locked
       ON locked.queue = asked.queue AND locked.consumer_group = asked.consumer_group
      AND locked.partition = asked.partition AND locked.subscription = subscription.id;

-- name: known_transaction_ids
-- Asked when the partitions are locked, so nobody can add one behind our back.
SELECT t.partition, t.hash, t.at_offset
  FROM unnest($1::bigint[], $2::bytea[]) AS a (partition, hash)
  JOIN queen.transaction_id AS t USING (partition, hash);

-- name: segments_holding
-- Each segment that holds one of these messages, once.
WITH wanted AS (
    SELECT DISTINCT found.partition, found.start_offset
      FROM unnest($1::bigint[], $2::bigint[]) AS a (partition, at_offset)
     CROSS JOIN LATERAL (
           SELECT s.partition, s.start_offset FROM queen.segment AS s
            WHERE s.partition = a.partition AND s.start_offset <= a.at_offset
            ORDER BY s.start_offset DESC LIMIT 1
     ) AS found
)
SELECT s.partition, s.start_offset, s.queue, s.lane, s.position, s.messages, s.size, s.created_at,
       s.payloads, s.transaction_ids, s.trace_ids, s.producers, s.flags
  FROM wanted JOIN queen.segment AS s USING (partition, start_offset);

-- name: lock_dead_letters
SELECT d.queue, d.number, d.partition, d.at_offset, d.consumer_group, d.error, d.attempts,
       d.failed_at, d.payload, d.transaction_id, d.trace_id, d.producer, d.created_at, d.encrypted
  FROM unnest($1::bigint[], $2::bigint[]) AS a (queue, number)
  JOIN queen.dead_letter AS d USING (queue, number)
 ORDER BY d.queue, d.number
   FOR UPDATE OF d;

-- name: letters_of_messages
SELECT d.partition, d.at_offset, d.consumer_group, d.number
  FROM unnest($1::bigint[], $2::bigint[], $3::text[]) AS a (partition, at_offset, consumer_group)
  JOIN queen.dead_letter AS d USING (partition, at_offset, consumer_group);

-- name: recorded_outcomes
SELECT name, fingerprint, outcome, created_at FROM queen.outcome WHERE name = ANY ($1::text[]);

-- name: lock_entries
SELECT e.space, e.hash, e.version
  FROM unnest($1::text[], $2::bytea[]) AS a (space, hash)
  JOIN queen.entry AS e ON e.space = a.space AND e.hash = a.hash
 ORDER BY e.space, e.hash
   FOR UPDATE OF e;

-- name: next_numbers
SELECT nextval('queen.number') FROM generate_series(1, $1::integer);

-- name: now
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
