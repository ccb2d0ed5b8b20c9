-- Duties that one server at a time does for all.

-- name: acquire_leadership
INSERT INTO queen.duty AS known (name, owner, expires_at)
VALUES ($1, $2, clock_timestamp() + $3)
    ON CONFLICT (name) DO UPDATE
   SET owner = excluded.owner, expires_at = excluded.expires_at
 WHERE known.owner = excluded.owner OR known.expires_at <= clock_timestamp()
RETURNING 1;
