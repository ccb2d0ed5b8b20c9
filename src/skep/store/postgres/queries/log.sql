-- Reading by position.

-- name: read_segments
-- The segment that holds an offset, or the first after it, and then one by one those that follow,
-- until they hold enough messages or bytes. No payload is read before that is decided.
WITH RECURSIVE taken (start_offset, stop, messages, size) AS (
    (SELECT s.start_offset, s.start_offset + s.messages,
            s.start_offset + s.messages - greatest(s.start_offset, $2), s.size::bigint
       FROM queen.segment AS s
      WHERE s.partition = $1
        AND s.start_offset >= coalesce((
            SELECT f.start_offset FROM queen.segment AS f
             WHERE f.partition = $1 AND f.start_offset <= $2
             ORDER BY f.start_offset DESC LIMIT 1), $2)
        AND s.start_offset + s.messages > $2
      ORDER BY s.start_offset
      LIMIT 1)
    UNION ALL
    SELECT n.start_offset, n.start_offset + n.messages,
           taken.messages + n.messages, taken.size + n.size
      FROM taken
     CROSS JOIN LATERAL (
           SELECT s.start_offset, s.messages, s.size FROM queen.segment AS s
            WHERE s.partition = $1 AND s.start_offset >= taken.stop
            ORDER BY s.start_offset LIMIT 1
           ) AS n
     WHERE taken.messages < $3 AND taken.size < $4
)
SELECT s.partition, s.start_offset, s.queue, s.lane, s.position, s.messages, s.size, s.created_at,
       s.payloads, s.transaction_ids, s.trace_ids, s.producers, s.flags
  FROM taken
  JOIN queen.segment AS s ON s.partition = $1 AND s.start_offset = taken.start_offset
 ORDER BY s.start_offset;

-- name: find_offset
SELECT at_offset FROM queen.transaction_id WHERE partition = $1 AND hash = $2;

-- name: offset_at
-- Bisect the offsets between the first segment and the last one.
WITH RECURSIVE stretch (low, high) AS (
    SELECT (SELECT s.start_offset FROM queen.segment AS s
             WHERE s.partition = $1 AND s.start_offset >= (
                   SELECT p.start_offset FROM queen.partition AS p WHERE p.number = $1)
             ORDER BY s.start_offset LIMIT 1),
           (SELECT s.start_offset + s.messages FROM queen.segment AS s WHERE s.partition = $1
             ORDER BY s.start_offset DESC LIMIT 1)
    UNION ALL
    SELECT CASE WHEN middle.created_at < $2
                THEN greatest(middle.stop, (low + high) / 2 + 1) ELSE low END,
           CASE WHEN middle.created_at < $2 THEN high ELSE least(middle.start, high) END
      FROM stretch
     CROSS JOIN LATERAL (
           SELECT s.start_offset AS start, s.start_offset + s.messages AS stop, s.created_at
             FROM queen.segment AS s
            WHERE s.partition = $1 AND s.start_offset <= (low + high) / 2
            ORDER BY s.start_offset DESC LIMIT 1
           ) AS middle
     WHERE low < high
)
SELECT coalesce(max(low), (SELECT end_offset FROM queen.partition WHERE number = $1), 0)
  FROM stretch;

-- name: heads
-- The end of the last segment of each lane, from the highest lane down, and of deleted segments.
WITH RECURSIVE last (lane, position) AS (
    (SELECT s.lane, s.position + s.messages FROM queen.segment AS s
      WHERE s.queue = $1
      ORDER BY s.lane DESC, s.position DESC LIMIT 1)
    UNION ALL
    SELECT n.lane, n.position
      FROM last
     CROSS JOIN LATERAL (
           SELECT s.lane, s.position + s.messages AS position FROM queen.segment AS s
            WHERE s.queue = $1 AND s.lane < last.lane
            ORDER BY s.lane DESC, s.position DESC LIMIT 1
           ) AS n
)
SELECT each.lane, max(each.position) AS position
  FROM (SELECT lane, position FROM last
         UNION ALL
        SELECT lane, position FROM queen.lane_head WHERE queue = $1) AS each
 WHERE EXISTS (SELECT FROM queen.queue WHERE number = $1)
 GROUP BY each.lane;

-- name: read_journal
SELECT s.partition, s.start_offset, s.queue, s.lane, s.position, s.messages, s.size, s.created_at,
       s.payloads, s.transaction_ids, s.trace_ids, s.producers, s.flags
  FROM queen.segment AS s
 WHERE s.queue = $1 AND s.lane = $2
   AND s.position >= coalesce((
       SELECT f.position FROM queen.segment AS f
        WHERE f.queue = $1 AND f.lane = $2 AND f.position <= $3
        ORDER BY f.position DESC LIMIT 1), $3)
   AND s.position + s.messages > $3
   AND EXISTS (SELECT FROM queen.queue WHERE number = $1)
 ORDER BY s.position
 LIMIT $4;

-- name: read_journal_backwards
SELECT s.partition, s.start_offset, s.queue, s.lane, s.position, s.messages, s.size, s.created_at,
       s.payloads, s.transaction_ids, s.trace_ids, s.producers, s.flags
  FROM queen.segment AS s
 WHERE s.queue = $1 AND s.lane = $2 AND s.position < $3
   AND EXISTS (SELECT FROM queen.queue WHERE number = $1)
 ORDER BY s.position DESC
 LIMIT $4;

-- name: read_places
-- The segments of ``read_journal`` without their messages, each with the one before it in its
-- partition.
SELECT s.position, s.position + s.messages AS end_position, s.size, s.created_at,
       before.lane AS previous_lane, before.position AS previous_position,
       before.position + before.messages AS previous_end
  FROM (SELECT j.partition, j.start_offset, j.position, j.messages, j.size, j.created_at
          FROM queen.segment AS j
         WHERE j.queue = $1 AND j.lane = $2
           AND j.position >= coalesce((
               SELECT f.position FROM queen.segment AS f
                WHERE f.queue = $1 AND f.lane = $2 AND f.position <= $3
                ORDER BY f.position DESC LIMIT 1), $3)
           AND j.position + j.messages > $3
           AND EXISTS (SELECT FROM queen.queue WHERE number = $1)
         ORDER BY j.position
         LIMIT $4) AS s
  LEFT JOIN LATERAL (
       SELECT b.lane, b.position, b.messages FROM queen.segment AS b
        WHERE b.partition = s.partition AND b.start_offset < s.start_offset
        ORDER BY b.start_offset DESC LIMIT 1
       ) AS before ON true
 ORDER BY s.position;
