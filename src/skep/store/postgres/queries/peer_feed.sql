-- Events that servers publish to each other.

-- name: lock_lane
SELECT number FROM queen.lane WHERE number = $1 AND owner = $2 FOR NO KEY UPDATE;

-- name: publish_event
-- Locks the row of the lane, so that numbers have no gaps and follow the order of commits. Returns no
-- row if the lane is not ours any more.
WITH held AS MATERIALIZED (
    SELECT number FROM queen.lane WHERE number = $1 AND owner = $2 FOR NO KEY UPDATE
)
INSERT INTO queen.news (lane, number, content, owner)
SELECT $1, coalesce((SELECT max(n.number) FROM queen.news AS n WHERE n.lane = $1), 0) + 1, $3, $2
  FROM held
RETURNING number;

-- name: peer_event_heads
SELECT l.number AS lane,
       coalesce((SELECT max(n.number) FROM queen.news AS n WHERE n.lane = l.number), 0) AS number
  FROM queen.lane AS l;

-- name: peer_events
-- Events after the numbers known of each lane, with the first number that is left there: if it is not
-- the next one, events were deleted before this server read them. Own events only if $4. All lanes in
-- one statement, so that an event is never seen without the earlier ones of other lanes. There is
-- always a row, with whether other servers have lanes, and the time.
SELECT EXISTS (SELECT FROM queen.lane WHERE owner <> $3 AND expires_at <> '-infinity')
           AS has_peers,
       (extract(epoch FROM clock_timestamp()) * 1000000)::bigint AS now,
       event.lane, event.next, event.number, event.content
  FROM (SELECT) AS always
  LEFT JOIN (
       SELECT l.number, next.number, n.number, n.content
         FROM queen.lane AS l
         LEFT JOIN unnest($1::integer[], $2::bigint[]) AS known (lane, number) ON known.lane = l.number
        CROSS JOIN LATERAL (
              SELECT number FROM queen.news
               WHERE lane = l.number AND number > coalesce(known.number, 0)
               ORDER BY lane, number LIMIT 1
              ) AS next
         LEFT JOIN LATERAL (
              SELECT * FROM queen.news
               WHERE lane = l.number AND number >= next.number
                 AND ($4 OR owner IS DISTINCT FROM $3)
               ORDER BY lane, number
              OFFSET 0  -- planned by itself, for each lane
              ) AS n ON true
       ) AS event (lane, next, number, content) ON true
 ORDER BY event.lane, event.number;

-- name: forget_peer_events
-- Never the last one, which has the number that the next one continues.
DELETE FROM queen.news
 WHERE lane = $1 AND number <= $2
   AND number < (SELECT max(n.number) FROM queen.news AS n WHERE n.lane = $1);
