-- Trace events, their names, and the messages of a trace id.

-- name: find_trace
SELECT s.partition, s.start_offset + m.n - 1 AS at_offset
  FROM queen.segment AS s
 CROSS JOIN LATERAL unnest(s.trace_ids) WITH ORDINALITY AS m (trace_id, n)
 WHERE s.trace_ids IS NOT NULL AND s.trace_ids @> ARRAY[$1::bytea] AND m.trace_id = $1
   AND NOT EXISTS (SELECT FROM queen.queue_removal AS r WHERE r.queue = s.queue)
 ORDER BY 1, 2
 LIMIT $2;

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
SELECT n.name, count(*) AS events, count(DISTINCT (n.partition, n.at_offset)) AS messages,
       max(n.created_at) AS last_seen_at
  FROM queen.trace_name AS n
 WHERE n.name > $1
   AND NOT EXISTS (SELECT FROM queen.queue_removal AS r
                     JOIN queen.partition AS p ON p.queue = r.queue
                    WHERE p.number = n.partition)
 GROUP BY n.name
 ORDER BY n.name
 LIMIT $2;
