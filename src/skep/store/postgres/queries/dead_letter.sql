-- Dead letters.

-- name: dead_letters
SELECT d.queue, d.number, d.partition, d.at_offset, d.consumer_group, d.error, d.attempts,
       d.failed_at, d.payload, d.transaction_id, d.trace_id, d.producer, d.created_at, d.encrypted
  FROM queen.dead_letter AS d
  JOIN queen.queue AS q ON q.number = d.queue
 WHERE d.queue = $1
   AND ($2::text IS NULL OR d.consumer_group = $2)
   AND ($3::bigint IS NULL OR d.partition = $3)
   AND ($4::bigint IS NULL OR d.failed_at >= $4)
   AND ($5::bigint IS NULL OR d.failed_at < $5)
   AND ($6::bigint IS NULL OR d.number < $6)
 ORDER BY d.number DESC
 LIMIT $7;

-- name: count_dead_letters
SELECT count(*)
  FROM queen.dead_letter AS d
  JOIN queen.queue AS q ON q.number = d.queue
 WHERE d.queue = $1
   AND ($2::text IS NULL OR d.consumer_group = $2)
   AND ($3::bigint IS NULL OR d.partition = $3)
   AND ($4::bigint IS NULL OR d.failed_at >= $4)
   AND ($5::bigint IS NULL OR d.failed_at < $5);

-- name: find_dead_letter
SELECT d.queue, d.number, d.partition, d.at_offset, d.consumer_group, d.error, d.attempts,
       d.failed_at, d.payload, d.transaction_id, d.trace_id, d.producer, d.created_at, d.encrypted
  FROM queen.dead_letter AS d
  JOIN queen.queue AS q ON q.number = d.queue
 WHERE d.queue = $1 AND d.number = $2;

-- name: given_up
SELECT d.at_offset, d.consumer_group, d.number
  FROM queen.dead_letter AS d
 WHERE d.partition = $1 AND d.at_offset >= $2 AND d.at_offset < $3
 ORDER BY d.at_offset, d.consumer_group;
