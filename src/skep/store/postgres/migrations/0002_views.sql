-- What an operator's SQL may use: the names and columns that the queue has always documented.

-- A message id is its address: 58 bits of the partition's number, 64 of the offset.
CREATE FUNCTION queen.message_id(partition bigint, at_offset bigint) RETURNS uuid
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN (
    lpad(to_hex(partition >> 10), 12, '0')
    || '8' || lpad(to_hex(((partition & 1023) << 2) | ((at_offset >> 62) & 3)), 3, '0')
    || to_hex((at_offset & 4611686018427387903) | (-9223372036854775807 - 1))
)::uuid;

CREATE FUNCTION queen.partition_id(number bigint) RETURNS uuid
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN queen.message_id(number, -1);

CREATE FUNCTION queen.queue_id(number bigint) RETURNS uuid
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN queen.message_id(number, -2);

CREATE FUNCTION queen.instant(micros bigint) RETURNS timestamptz
LANGUAGE sql IMMUTABLE STRICT PARALLEL SAFE
RETURN timestamptz 'epoch' + make_interval(secs => micros / 1000000)
       + (micros % 1000000) * interval '1 microsecond';

-- NULL if the bytes are no JSON that jsonb can hold. The only way to find out is to try.
CREATE FUNCTION queen.to_json(payload bytea) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
    RETURN convert_from(payload, 'UTF8')::jsonb;
EXCEPTION WHEN data_exception OR statement_too_complex OR program_limit_exceeded THEN
    RETURN NULL;
END
$$;

-- How many offsets a set of ranges holds.
CREATE FUNCTION queen.count_ranges(ranges text) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE
RETURN (SELECT coalesce(sum((pair ->> 1)::bigint - (pair ->> 0)::bigint), 0)::bigint
          FROM jsonb_array_elements(ranges::jsonb) AS pair);

CREATE VIEW queen.queues AS
SELECT queen.queue_id(number) AS id, number, name, namespace, task, priority, lease_time,
       retry_limit, retry_delay, max_queue_size AS max_size, max_queue_size, ttl,
       dead_letter_queue, dlq_after_max_retries, delayed_processing, window_buffer,
       retention_seconds, completed_retention_seconds, retention_enabled, encryption_enabled,
       max_wait_time_seconds, queen.instant(created_at) AS created_at
  FROM queen.queue;

CREATE VIEW queen.partitions AS
SELECT queen.partition_id(number) AS id, queen.queue_id(queue) AS queue_id, number, name,
       queen.instant(created_at) AS created_at,
       queen.instant(greatest(newest_at, created_at)) AS last_activity,
       start_offset, end_offset
  FROM queen.partition_state;

CREATE VIEW queen.messages AS
SELECT queen.message_id(s.partition, s.start_offset + m.n - 1) AS id,
       coalesce(m.transaction_id, queen.message_id(s.partition, s.start_offset + m.n - 1)::text)
           AS transaction_id,
       encode(m.trace_id, 'hex')::uuid AS trace_id,
       queen.partition_id(s.partition) AS partition_id,
       CASE WHEN f.flag & 1 = 0 THEN queen.to_json(m.payload) END AS payload,
       queen.instant(s.created_at) AS created_at,
       f.flag & 1 = 1 AS is_encrypted,
       s.start_offset + m.n - 1 AS message_offset,
       m.producer,
       m.payload AS payload_bytes
  FROM queen.segment AS s
 CROSS JOIN LATERAL unnest(s.payloads, s.transaction_ids, s.trace_ids, s.producers)
       WITH ORDINALITY AS m (payload, transaction_id, trace_id, producer, n)
 CROSS JOIN LATERAL (
       SELECT CASE WHEN s.flags IS NULL THEN 0 ELSE get_byte(s.flags, m.n::integer - 1) END
       ) AS f (flag)
 WHERE f.flag & 2 = 0;

-- A group that has no row in a partition yet reads it from its beginning.
CREATE VIEW queen.partition_consumers AS
SELECT queen.partition_id(p.number) AS partition_id,
       s.consumer_group,
       CASE WHEN coalesce(c.cursor_offset, 0) = 0 THEN '00000000-0000-0000-0000-000000000000'
            ELSE queen.message_id(p.number, c.cursor_offset - 1) END AS last_consumed_id,
       coalesce(c.cursor_offset, 0) AS cursor_offset,
       coalesce(c.messages_consumed, 0) AS total_messages_consumed,
       coalesce(c.batches_consumed, 0) AS total_batches_consumed,
       queen.instant(nullif(c.last_consumed_at, 0)) AS last_consumed_at,
       queen.instant(c.expires_at) AS lease_expires_at,
       queen.instant(c.granted_at) AS lease_acquired_at,
       CASE WHEN c.lease_id IS NOT NULL THEN (
            SELECT coalesce(jsonb_agg(queen.message_id(p.number, n) ORDER BY n), '[]')
              FROM generate_series(c.cursor_offset, c.run_end - 1) AS n
             WHERE NOT EXISTS (
                   SELECT FROM jsonb_array_elements(coalesce(c.acked, '[]')::jsonb) AS pair
                    WHERE n >= (pair ->> 0)::bigint AND n < (pair ->> 1)::bigint)
       ) END AS message_batch,
       CASE WHEN c.lease_id IS NOT NULL THEN c.run_end - c.cursor_offset ELSE 0 END AS batch_size,
       coalesce(c.completed, 0) AS acked_count,
       c.lease_id AS worker_id,
       p.end_offset - greatest(p.start_offset, coalesce(c.cursor_offset, 0))
           - queen.count_ranges(coalesce(c.acked, '[]')) AS pending_estimate,
       queen.instant(s.created_at) AS created_at
  FROM queen.subscription AS s
  JOIN queen.partition_state AS p ON p.queue = s.queue
  LEFT JOIN queen.consumer AS c
       ON c.queue = s.queue AND c.consumer_group = s.consumer_group
      AND c.partition = p.number AND c.subscription = s.id;

CREATE VIEW queen.partition_cursors AS
SELECT partition_id, consumer_group, last_consumed_id, total_messages_consumed,
       total_batches_consumed, last_consumed_at
  FROM queen.partition_consumers;

-- Leases that live. One that ran out is not in the way of anybody, so it is not shown.
CREATE VIEW queen.partition_leases AS
SELECT partition_id, consumer_group, worker_id, lease_expires_at, message_batch,
       lease_acquired_at AS created_at, NULL::timestamptz AS released_at
  FROM queen.partition_consumers
 WHERE lease_expires_at > clock_timestamp();

CREATE VIEW queen.dead_letter_queue AS
SELECT d.number AS id,
       queen.message_id(d.partition, d.at_offset) AS message_id,
       queen.queue_id(d.queue) AS queue_id,
       queen.partition_id(d.partition) AS partition_id,
       d.consumer_group,
       d.error AS error_message,
       greatest(d.attempts - 1, 0) AS retry_count,
       coalesce(d.transaction_id, queen.message_id(d.partition, d.at_offset)::text)
           AS transaction_id,
       encode(d.trace_id, 'hex')::uuid AS trace_id,
       CASE WHEN NOT d.encrypted THEN queen.to_json(d.payload) END AS payload,
       queen.instant(d.created_at) AS original_created_at,
       queen.instant(d.failed_at) AS failed_at
  FROM queen.dead_letter AS d
  JOIN queen.queue AS q ON q.number = d.queue;

CREATE VIEW queen.retention_history AS
SELECT number AS id, queen.queue_id(queue) AS queue_id, queen.partition_id(partition) AS partition_id,
       messages AS messages_deleted, kind AS retention_type,
       queen.instant(executed_at) AS executed_at, queen.instant(executed_at) AS deleted_at
  FROM queen.removal;

-- What the group that is furthest behind still has to read; all that is kept if there is none.
CREATE VIEW queen.queue_depths AS
SELECT q.name AS queue_name,
       d.depth AS current_depth,
       q.max_queue_size,
       CASE WHEN q.max_queue_size > 0 THEN greatest(q.max_queue_size - d.depth, 0) END
           AS remaining_capacity
  FROM queen.queue AS q
 CROSS JOIN LATERAL (
       SELECT coalesce(max(g.backlog), 0)::bigint AS depth
         FROM (
              SELECT sum(p.end_offset - greatest(p.start_offset, coalesce(c.cursor_offset, 0))
                         - queen.count_ranges(coalesce(c.acked, '[]'))) AS backlog
                FROM queen.partition_state AS p
                LEFT JOIN queen.subscription AS s ON s.queue = p.queue
                LEFT JOIN queen.consumer AS c
                     ON c.queue = s.queue AND c.consumer_group = s.consumer_group
                    AND c.partition = p.number AND c.subscription = s.id
               WHERE p.queue = q.number
               GROUP BY s.consumer_group
              ) AS g
       ) AS d;
