-- While each queue has one partition, statistics say that the queue alone identifies a partition. When
-- one queue has grown since, a partition would be looked for among all partitions of its queue. So
-- PostgreSQL is told that many rows share a queue, and many entries a space.
ALTER TABLE queen.partition ALTER COLUMN queue SET (n_distinct = 10);
ALTER TABLE queen.entry ALTER COLUMN space SET (n_distinct = 10);
