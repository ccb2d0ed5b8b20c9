-- What a commit reads and locks before it evaluates its changes. All transactions lock rows in one
-- order: the lane, partitions by number, dead letters by number, rows of the outbox, entries by their
-- key, queues by number; and states of consumers, by their key, when they are replaced.

-- name: lock_partitions
-- Lock the partitions of these numbers if the lane is still ours; if not, returns no row. Also returns
-- the versions of entries in the order of the parameters, 0 if there is none.
WITH held AS MATERIALIZED (
    SELECT number FROM queen.lane WHERE number = $1 AND owner = $2 FOR NO KEY UPDATE
), locked AS MATERIALIZED (
    SELECT number FROM queen.partition
     WHERE number = ANY ($3::bigint[]) AND EXISTS (SELECT FROM held)
     ORDER BY number
       FOR NO KEY UPDATE
)
SELECT (SELECT count(*) FROM locked) AS partitions,
       ARRAY(SELECT coalesce((SELECT e.version FROM queen.entry AS e
                               WHERE e.space = a.space AND e.hash = a.hash), 0)
               FROM unnest($4::text[], $5::bytea[]) WITH ORDINALITY AS a (space, hash, place)
              ORDER BY a.place) AS entry_versions
  FROM held;

-- name: locked_partitions
-- Partitions that are locked and whose queues exist, with the head of the lane in each queue. This is a
-- statement of its own: one that waited for a lock does not see what the other transaction wrote.
WITH asked AS MATERIALIZED (
    SELECT p.*, q.version FROM queen.partition_state AS p
      JOIN queen.queue AS q ON q.number = p.queue
     WHERE p.number = ANY ($2::bigint[])
), heads AS MATERIALIZED (
    SELECT a.queue, greatest(head.position, last.position, 0) AS position
      FROM (SELECT DISTINCT queue FROM asked) AS a
      LEFT JOIN queen.lane_head AS head ON head.queue = a.queue AND head.lane = $1
      LEFT JOIN LATERAL (
           SELECT s.position + s.messages AS position FROM queen.segment AS s
            WHERE s.queue = a.queue AND s.lane = $1
            ORDER BY s.position DESC LIMIT 1
           ) AS last ON true
)
SELECT a.number, a.queue, a.name, a.created_at, a.start_offset, a.end_offset, a.first_at,
       a.newest_at, heads.position AS head,
       (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now,
       a.version AS queue_version
  FROM asked AS a
  JOIN heads ON heads.queue = a.queue;

-- name: read_consumers
-- For each place: the group's subscription, whether the partition exists, the state, the version of
-- the queue's configuration. Nothing is locked: the write compares the revision that it replaces.
-- For EXISTS instead of coalesce PostgreSQL might read all partitions.
SELECT asked.queue, asked.consumer_group, asked.partition, subscription.id AS subscription,
       subscription.mode, subscription.from_at, subscription.created_at AS subscribed_at,
       coalesce((SELECT true FROM queen.partition AS p JOIN queen.queue AS q ON q.number = p.queue
                  WHERE p.number = asked.partition AND p.queue = asked.queue), false)
           AS has_partition,
       (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now,
       newest.version, newest.cursor_offset, newest.acked, newest.run_end, newest.attempt,
       newest.retries, newest.ready_at, newest.oldest_at, newest.lease_id, newest.granted_at,
       newest.expires_at, newest.next_at, newest.completed, newest.failed,
       newest.messages_consumed, newest.batches_consumed, newest.last_consumed_at, newest.token,
       (SELECT q.version FROM queen.queue AS q WHERE q.number = asked.queue) AS queue_version
  FROM unnest($1::bigint[], $2::text[], $3::bigint[]) AS asked (queue, consumer_group, partition)
  LEFT JOIN queen.subscription AS subscription
       ON subscription.queue = asked.queue AND subscription.consumer_group = asked.consumer_group
  LEFT JOIN LATERAL (
       SELECT c.* FROM queen.consumer AS c
        WHERE c.queue = asked.queue AND c.consumer_group = asked.consumer_group
          AND c.partition = asked.partition AND c.subscription = subscription.id
        ORDER BY c.version DESC LIMIT 1
       ) AS newest ON true;

-- name: known_transaction_ids
-- Read after the partitions are locked, so that no other server can add one.
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

-- name: queue_versions
SELECT number, version FROM queen.queue WHERE number = ANY ($1::bigint[]);

-- name: entry_versions
SELECT coalesce((SELECT e.version FROM queen.entry AS e
                  WHERE e.space = a.space AND e.hash = a.hash), 0) AS version
  FROM unnest($1::text[], $2::bytea[]) WITH ORDINALITY AS a (space, hash, place)
 ORDER BY a.place;

-- name: share_entries
-- Locks entries, so that they do not change before this transaction ends.
SELECT e.space, e.hash, e.version
  FROM unnest($1::text[], $2::bytea[]) AS a (space, hash)
  JOIN queen.entry AS e ON e.space = a.space AND e.hash = a.hash
 ORDER BY e.space, e.hash
   FOR SHARE OF e;

-- name: lock_queues
-- Queues with a capacity: servers that push to the same one take turns.
SELECT number FROM queen.queue WHERE number = ANY ($1::bigint[]) ORDER BY number FOR NO KEY UPDATE;

-- name: pushed
-- How many messages were ever pushed to queues, over all lanes. Read after the queues are locked.
SELECT a.queue, coalesce(sum(greatest(h.position, last.position)), 0)::bigint AS messages
  FROM unnest($1::bigint[]) AS a (queue)
 CROSS JOIN queen.lane AS l
  LEFT JOIN queen.lane_head AS h ON h.queue = a.queue AND h.lane = l.number
  LEFT JOIN LATERAL (
       SELECT s.position + s.messages AS position FROM queen.segment AS s
        WHERE s.queue = a.queue AND s.lane = l.number
        ORDER BY s.position DESC LIMIT 1
       ) AS last ON true
 GROUP BY a.queue;

-- name: next_numbers
SELECT nextval('queen.number') AS number FROM generate_series(1, $1::integer);

-- name: now
SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
