-- What servers tell each other, and who does what for all.

-- name: lock_lane
SELECT number FROM queen.lane WHERE number = $1 AND owner = $2 FOR NO KEY UPDATE;

-- name: tell
-- The row of the lane is locked by whoever tells, so that numbers have no gaps and keep the order of
-- commits. If the lane is not ours any more, nothing comes back.
WITH held AS MATERIALIZED (
    SELECT number FROM queen.lane WHERE number = $1 AND owner = $2 FOR NO KEY UPDATE
)
INSERT INTO queen.news (lane, number, content)
SELECT $1, coalesce((SELECT max(n.number) FROM queen.news AS n WHERE n.lane = $1), 0) + 1, $3
  FROM held
RETURNING number;

-- name: news_head
SELECT coalesce(max(number), 0) FROM queen.news WHERE lane = $1;

-- name: news_heads
SELECT l.number, coalesce((SELECT max(n.number) FROM queen.news AS n WHERE n.lane = l.number), 0)
  FROM queen.lane AS l;

-- name: news
-- All lanes in one statement: what is seen of one was committed after what it speaks of on another.
-- Of our own lane only what its former holder told.
SELECT l.number, n.number, n.content
  FROM queen.lane AS l
  LEFT JOIN unnest($1::integer[], $2::bigint[]) AS seen (lane, number) ON seen.lane = l.number
 CROSS JOIN LATERAL (
       SELECT * FROM queen.news
        WHERE lane = l.number AND number > coalesce(seen.number, 0)
          AND (l.number <> $3 OR number <= $4)
        ORDER BY lane, number
       OFFSET 0  -- planned by itself, for each lane
       ) AS n
 ORDER BY l.number, n.number;

-- name: own_news
SELECT lane, number, content FROM queen.news WHERE lane = $1 AND number > $2 ORDER BY number;

-- name: forget_news
-- Never the last, which says where the numbers go on.
DELETE FROM queen.news
 WHERE lane = $1 AND number <= $2
   AND number < (SELECT max(n.number) FROM queen.news AS n WHERE n.lane = $1);

-- name: take_duty
INSERT INTO queen.duty AS known (name, owner, expires_at)
VALUES ($1, $2, clock_timestamp() + $3)
    ON CONFLICT (name) DO UPDATE
   SET owner = excluded.owner, expires_at = excluded.expires_at
 WHERE known.owner = excluded.owner OR known.expires_at <= clock_timestamp()
RETURNING 1;
