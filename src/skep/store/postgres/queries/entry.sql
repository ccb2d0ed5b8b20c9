-- Entries.

-- name: find_entries
-- One by one: for a join PostgreSQL might read all entries of the space.
SELECT e.space, e.key, e.value, e.version, e.updated_at
  FROM unnest($2::bytea[]) WITH ORDINALITY AS a (hash, n)
 CROSS JOIN LATERAL (
       SELECT f.* FROM queen.entry AS f WHERE f.space = $1 AND f.hash = a.hash LIMIT 1
       ) AS e
 ORDER BY a.n;

-- name: list_entries
SELECT space, key, value, version, updated_at
  FROM queen.entry
 WHERE space = $1
   AND left(key, 500) >= left(greatest($2::text COLLATE "C", $3::text COLLATE "C"), 500)
   AND starts_with(key, $2) AND key > $3
   AND left(key, 500) <= left($2, 500) || repeat(U&'\+10FFFF', 500)
 ORDER BY left(key, 500), key
 LIMIT $4;
