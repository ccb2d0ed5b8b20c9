-- Lanes: each server's own track of the journal.

-- name: lock_lanes
-- Lanes are assigned one at a time. The lock ends with the transaction.
SELECT pg_advisory_xact_lock(hashtext('queen.lane'));

-- name: take_lane
-- The lowest lane without an owner, or a new one. Every commit of the owner locks the row, so this
-- waits for one in progress, and the next commit of the former owner finds that the lane was taken.
INSERT INTO queen.lane (number, owner, expires_at)
SELECT coalesce(
           (SELECT min(number) FROM queen.lane WHERE expires_at <= clock_timestamp()),
           (SELECT coalesce(max(number) + 1, 0) FROM queen.lane)
       ), $1, clock_timestamp() + $2
    ON CONFLICT (number) DO UPDATE
   SET owner = excluded.owner, expires_at = excluded.expires_at
RETURNING number;

-- name: has_peers
-- Whether another server has a lane that it has not given back: it may be stopped, and its lease
-- expired, and it may go on at any time.
SELECT EXISTS (SELECT FROM queen.lane WHERE owner <> $1 AND expires_at <> '-infinity');

-- name: renew_lane
UPDATE queen.lane SET expires_at = clock_timestamp() + $3 WHERE number = $1 AND owner = $2;

-- name: give_lane_back
UPDATE queen.lane SET expires_at = '-infinity' WHERE owner = $1;
