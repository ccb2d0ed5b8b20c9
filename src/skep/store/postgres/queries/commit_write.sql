-- What a commit writes. Segments are not here: they are copied in.

-- name: put_transaction_ids
-- A replayed dead letter takes its id over.
INSERT INTO queen.transaction_id (partition, hash, at_offset)
SELECT * FROM unnest($1::bigint[], $2::bytea[], $3::bigint[])
    ON CONFLICT (partition, hash) DO UPDATE SET at_offset = excluded.at_offset;

-- name: replace_consumers
-- Replace states of certain revisions by new ones; returns how many of them matched.
WITH replaced AS (
    DELETE FROM queen.consumer AS c
     USING unnest($1::bigint[], $2::text[], $3::bigint[], $4::text[], $5::bigint[], $6::bigint[])
           AS a (queue, consumer_group, partition, subscription, version, token)
     WHERE c.queue = a.queue AND c.consumer_group = a.consumer_group
       AND c.partition = a.partition AND c.subscription = a.subscription
       AND c.version = a.version AND c.token = a.token
    RETURNING 1
), made AS (
    INSERT INTO queen.consumer SELECT * FROM unnest($7::queen.consumer[])
)
SELECT count(*) FROM replaced;

-- name: lock_first_consumers
-- There is no row to lock yet, and two first states need not have the same version. Places share 256
-- advisory locks, because PostgreSQL has room for some thousand, and are locked in one order.
SELECT pg_advisory_xact_lock(hashtext('queen.consumer'), a.shared)
  FROM (SELECT DISTINCT (hashtextextended(place, 0) & 255)::integer AS shared
          FROM unnest($1::text[]) AS asked (place)
         ORDER BY 1) AS a;

-- name: insert_consumers
-- First states. If another server has inserted one, fewer rows are returned than were sent.
INSERT INTO queen.consumer
SELECT a.* FROM unnest($1::queen.consumer[]) AS a
 WHERE NOT EXISTS (
       SELECT FROM queen.consumer AS c
        WHERE c.queue = a.queue AND c.consumer_group = a.consumer_group
          AND c.partition = a.partition AND c.subscription = a.subscription)
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

-- name: commit_at_once
-- A whole commit of pushes, pops and acks, if the lane is ours and all that it was evaluated against is
-- current: partitions, heads, states, subscriptions, configurations, and that certain entries do not
-- exist. Otherwise the division by zero at the end fails the statement, which undoes its writes.
WITH held AS MATERIALIZED (
    SELECT number FROM queen.lane WHERE number = $1 AND owner = $2 FOR NO KEY UPDATE
), locked AS MATERIALIZED (
    SELECT p.number
      FROM held
     CROSS JOIN unnest($3::bigint[], $4::bigint[], $5::bigint[]) AS a (number, queue, end_offset)
      JOIN queen.partition AS p ON p.number = a.number AND p.queue = a.queue
     WHERE EXISTS (SELECT FROM queen.queue AS q WHERE q.number = a.queue)
       AND greatest(p.end_offset, (
           SELECT s.start_offset + s.messages FROM queen.segment AS s
            WHERE s.partition = a.number
            ORDER BY s.start_offset DESC LIMIT 1)) = a.end_offset
       FOR NO KEY UPDATE OF p
), heads AS (
    SELECT FROM unnest($6::bigint[], $7::bigint[]) AS a (queue, position)
     WHERE greatest((
               SELECT h.position FROM queen.lane_head AS h
                WHERE h.queue = a.queue AND h.lane = $1
           ), (
               SELECT s.position + s.messages FROM queen.segment AS s
                WHERE s.queue = a.queue AND s.lane = $1
                ORDER BY s.position DESC LIMIT 1
           )) = a.position
), made AS (
    INSERT INTO queen.segment SELECT * FROM unnest($8::queen.segment[])
), replaced AS (
    DELETE FROM queen.consumer AS c
     USING unnest($9::bigint[], $10::text[], $11::bigint[], $12::text[], $13::bigint[],
                  $14::bigint[], $15::text[])
           AS a (queue, consumer_group, partition, subscription, version, token, lease_id)
     WHERE c.queue = a.queue AND c.consumer_group = a.consumer_group
       AND c.partition = a.partition AND c.subscription = a.subscription
       AND c.version = a.version AND c.token = a.token
       AND (a.lease_id IS NULL
            OR c.lease_id = a.lease_id
               AND c.expires_at > (extract(epoch FROM clock_timestamp()) * 1000000)::bigint)
    RETURNING 1
), subscribed AS (
    SELECT FROM unnest($16::bigint[], $17::text[], $18::text[])
           AS a (queue, consumer_group, subscription)
      JOIN queen.subscription AS s
           ON s.queue = a.queue AND s.consumer_group = a.consumer_group AND s.id = a.subscription
), moved AS (
    INSERT INTO queen.consumer SELECT * FROM unnest($19::queen.consumer[])
), configured AS (
    SELECT FROM unnest($20::bigint[], $21::bigint[]) AS a (queue, version)
      JOIN queen.queue AS q ON q.number = a.queue AND q.version = a.version
), present AS (
    SELECT FROM unnest($22::text[], $23::bytea[]) AS a (space, hash)
      JOIN queen.entry AS e ON e.space = a.space AND e.hash = a.hash
), published AS (
    INSERT INTO queen.news (lane, number, content, owner)
    SELECT $1, coalesce((SELECT max(n.number) FROM queen.news AS n WHERE n.lane = $1), 0) + 1,
           $24, $2
      FROM held
    RETURNING number
)
SELECT coalesce((SELECT number FROM published), 0)
     / ((SELECT count(*) FROM locked) = cardinality($3::bigint[])
        AND (SELECT count(*) FROM heads) = cardinality($6::bigint[])
        AND (SELECT count(*) FROM replaced) = cardinality($9::bigint[])
        AND (SELECT count(*) FROM subscribed) = cardinality($16::bigint[])
        AND (SELECT count(*) FROM configured) = cardinality($20::bigint[])
        AND NOT EXISTS (SELECT FROM present))::integer;
