-- Large queues are loaded page by page, oldest partition first.

CREATE INDEX partition_order ON queen.partition (queue, number);
