-- The store itself.

-- name: statistics
SELECT (SELECT id FROM queen.store LIMIT 1) AS id,
       (SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class AS c
         WHERE c.relnamespace = 'queen'::regnamespace AND c.relkind = 'r') AS bytes_on_disk,
       (SELECT count(*) FROM queen.dead_letter AS d
          JOIN queen.queue AS q ON q.number = d.queue) AS dead_letters;
