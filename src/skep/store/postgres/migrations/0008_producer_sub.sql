-- The producer of a message under the name that Queen's tools use. New columns of a view come last.
CREATE OR REPLACE VIEW queen.messages AS
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
       m.payload AS payload_bytes,
       m.producer AS producer_sub
  FROM queen.segment AS s
 CROSS JOIN LATERAL unnest(s.payloads, s.transaction_ids, s.trace_ids, s.producers)
       WITH ORDINALITY AS m (payload, transaction_id, trace_id, producer, n)
 CROSS JOIN LATERAL (
       SELECT CASE WHEN s.flags IS NULL THEN 0 ELSE get_byte(s.flags, m.n::integer - 1) END
       ) AS f (flag)
 WHERE f.flag & 2 = 0;
