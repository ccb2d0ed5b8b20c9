-- Outcomes of changes with an idempotency key.

-- name: forget_outcomes
DELETE FROM queen.outcome
 WHERE name IN (SELECT name FROM queen.outcome WHERE created_at < $1
                 ORDER BY created_at LIMIT $2)
RETURNING 1;
