-- The tables of the queue, in the singular. What an operator's SQL uses is in the plural: 0002.
--
-- No table refers to another by a foreign key: checking one locks the row referred to, and the
-- rows of queues and partitions are in every push. What is left without an owner is swept when
-- a server starts.
--
-- Instants are microseconds since 1970. A text may hold any character but the one that
-- PostgreSQL cannot store: a zero character is kept as U+E000 and "0", U+E000 itself twice.

CREATE TABLE queen.store (
    id         uuid NOT NULL DEFAULT gen_random_uuid(),
    created_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
INSERT INTO queen.store DEFAULT VALUES;

-- One line of numbers for queues, partitions, dead letters, events: none is ever used again.
CREATE SEQUENCE queen.number AS bigint;

CREATE TABLE queen.queue (
    number                      bigint PRIMARY KEY,
    name                        text COLLATE "C" NOT NULL UNIQUE,
    namespace                   text,
    task                        text,
    lease_time                  integer NOT NULL DEFAULT 300,
    retry_limit                 integer NOT NULL DEFAULT 3,
    retry_delay                 integer NOT NULL DEFAULT 1000,
    priority                    integer NOT NULL DEFAULT 0,
    max_queue_size              integer NOT NULL DEFAULT 0,
    ttl                         integer NOT NULL DEFAULT 3600,
    dead_letter_queue           boolean NOT NULL DEFAULT false,
    dlq_after_max_retries       boolean NOT NULL DEFAULT false,
    delayed_processing          integer NOT NULL DEFAULT 0,
    window_buffer               integer NOT NULL DEFAULT 0,
    max_wait_time_seconds       integer NOT NULL DEFAULT 0,
    retention_enabled           boolean NOT NULL DEFAULT false,
    retention_seconds           integer NOT NULL DEFAULT 0,
    completed_retention_seconds integer NOT NULL DEFAULT 0,
    encryption_enabled          boolean NOT NULL DEFAULT false,
    created_at                  bigint NOT NULL
);

-- The row that a push locks, and does not change: where a partition ends is where its last segment
-- does. A row that is updated all the time has ever more versions while somebody somewhere holds a
-- snapshot, and who looks for it has to go through all of them. ``end_offset`` and ``newest_at``
-- are those of the last segment that was removed.
CREATE TABLE queen.partition (
    number       bigint PRIMARY KEY,
    queue        bigint NOT NULL,
    name         text COLLATE "C" NOT NULL,
    created_at   bigint NOT NULL,
    start_offset bigint NOT NULL DEFAULT 0,
    end_offset   bigint NOT NULL DEFAULT 0,
    newest_at    bigint NOT NULL DEFAULT 0,
    UNIQUE (queue, name)
);

-- Consecutive messages of a partition, appended by one commit. The n-th entry of each array
-- belongs to the n-th message; an array that nobody filled is NULL. ``flags`` has a byte per
-- message: 1 encrypted, 2 deleted.
CREATE TABLE queen.segment (
    partition       bigint NOT NULL,
    start_offset    bigint NOT NULL,
    queue           bigint NOT NULL,
    lane            integer NOT NULL,
    position        bigint NOT NULL,
    messages        integer NOT NULL,
    size            integer NOT NULL,
    created_at      bigint NOT NULL,
    payloads        bytea[] NOT NULL,
    transaction_ids text[],
    trace_ids       bytea[],
    producers       text[],
    flags           bytea,
    PRIMARY KEY (partition, start_offset)
);
-- The journal. That it is unique is what stops a server that lost its lane without knowing.
CREATE UNIQUE INDEX segment_journal ON queen.segment (queue, lane, position);
CREATE INDEX segment_trace_ids ON queen.segment USING gin (trace_ids) WHERE trace_ids IS NOT NULL;

-- Compressed, and in the row as long as it fits: a row of its own per two kilobytes costs more
-- than the segment does.
ALTER TABLE queen.segment
    ALTER payloads SET STORAGE MAIN,
    ALTER transaction_ids SET STORAGE MAIN,
    ALTER trace_ids SET STORAGE MAIN,
    ALTER producers SET STORAGE MAIN;

DO $$
BEGIN
    IF 'lz4' = ANY ((SELECT enumvals FROM pg_settings
                      WHERE name = 'default_toast_compression')::text[]) THEN
        ALTER TABLE queen.segment
            ALTER payloads SET COMPRESSION lz4,
            ALTER transaction_ids SET COMPRESSION lz4,
            ALTER trace_ids SET COMPRESSION lz4,
            ALTER producers SET COMPRESSION lz4;
    END IF;
END
$$;

-- Where the ids are that producers chose, by the first 16 bytes of their SHA-256.
CREATE TABLE queen.transaction_id (
    partition bigint NOT NULL,
    hash      bytea NOT NULL,
    at_offset bigint NOT NULL,
    PRIMARY KEY (partition, hash)
);

CREATE TABLE queen.subscription (
    queue          bigint NOT NULL,
    consumer_group text COLLATE "C" NOT NULL,
    id             text NOT NULL,
    mode           text NOT NULL,
    from_at        bigint,
    created_at     bigint NOT NULL,
    PRIMARY KEY (queue, consumer_group)
);

-- A group's state in a partition: valid while ``subscription`` is the id of the group's own.
-- Every pop and every ack makes a row of the next version and deletes the one before, so the newest
-- is found at once, however many old ones a snapshot keeps.
CREATE TABLE queen.consumer (
    queue             bigint NOT NULL,
    consumer_group    text COLLATE "C" NOT NULL,
    partition         bigint NOT NULL,
    subscription      text NOT NULL,
    version           bigint NOT NULL,
    cursor_offset     bigint NOT NULL,
    acked             text,
    run_end           bigint NOT NULL,
    attempt           integer NOT NULL,
    retries           integer NOT NULL,
    ready_at          bigint NOT NULL,
    oldest_at         bigint NOT NULL,
    lease_id          text,
    granted_at        bigint,
    expires_at        bigint,
    next_at           bigint,
    completed         bigint,
    failed            text,
    messages_consumed bigint NOT NULL,
    batches_consumed  bigint NOT NULL,
    last_consumed_at  bigint NOT NULL,
    PRIMARY KEY (queue, consumer_group, partition, subscription, version)
);

CREATE TABLE queen.dead_letter (
    queue          bigint NOT NULL,
    number         bigint NOT NULL,
    partition      bigint NOT NULL,
    at_offset      bigint NOT NULL,
    consumer_group text COLLATE "C" NOT NULL,
    error          text NOT NULL,
    attempts       integer NOT NULL,
    failed_at      bigint NOT NULL,
    payload        bytea NOT NULL,
    transaction_id text,
    trace_id       bytea,
    producer       text,
    created_at     bigint NOT NULL,
    encrypted      boolean NOT NULL,
    PRIMARY KEY (queue, number),
    UNIQUE (partition, at_offset, consumer_group)
);

CREATE TABLE queen.trace_event (
    partition      bigint NOT NULL,
    at_offset      bigint NOT NULL,
    number         bigint NOT NULL,
    kind           text NOT NULL,
    data           bytea NOT NULL,
    consumer_group text,
    worker         text,
    created_at     bigint NOT NULL,
    names          text[] NOT NULL,
    PRIMARY KEY (partition, at_offset, number)
);

CREATE TABLE queen.trace_name (
    name       text COLLATE "C" NOT NULL,
    number     bigint NOT NULL,
    partition  bigint NOT NULL,
    at_offset  bigint NOT NULL,
    created_at bigint NOT NULL,
    PRIMARY KEY (name, number)
);

-- What became of changes that must happen once.
CREATE TABLE queen.outcome (
    name        text COLLATE "C" PRIMARY KEY,
    fingerprint bytea NOT NULL,
    outcome     bytea NOT NULL,
    created_at  bigint NOT NULL
);
CREATE INDEX outcome_age ON queen.outcome (created_at);

-- A key may be longer than an index takes, so it is found by its hash and listed by its head.
CREATE TABLE queen.entry (
    space      text COLLATE "C" NOT NULL,
    hash       bytea NOT NULL,
    key        text COLLATE "C" NOT NULL,
    value      bytea NOT NULL,
    version    bigint NOT NULL,
    updated_at bigint NOT NULL,
    PRIMARY KEY (space, hash)
);
CREATE INDEX entry_order ON queen.entry (space, left(key, 500));

CREATE TABLE queen.removal (
    queue       bigint NOT NULL,
    number      bigint NOT NULL DEFAULT nextval('queen.number'),
    partition   bigint NOT NULL,
    kind        text NOT NULL,
    messages    bigint NOT NULL,
    executed_at bigint NOT NULL,
    PRIMARY KEY (queue, number)
);

-- A server's track of the journal, its own until ``expires_at``.
CREATE TABLE queen.lane (
    number     integer PRIMARY KEY,
    owner      uuid NOT NULL,
    expires_at timestamptz NOT NULL
) WITH (fillfactor = 50);

-- How far a lane was in a queue when the last of its segments was removed: if there are others,
-- it is where the last of them ends.
CREATE TABLE queen.lane_head (
    queue    bigint NOT NULL,
    lane     integer NOT NULL,
    position bigint NOT NULL,
    PRIMARY KEY (queue, lane)
);

-- Partitions as they are. Of one table, so that a row can be deleted from it.
CREATE VIEW queen.partition_state AS
SELECT p.number, p.queue, p.name, p.created_at, p.start_offset,
       greatest(p.end_offset, (
           SELECT s.start_offset + s.messages FROM queen.segment AS s
            WHERE s.partition = p.number
            ORDER BY s.start_offset DESC LIMIT 1)) AS end_offset,
       coalesce((
           SELECT s.created_at FROM queen.segment AS s
            WHERE s.partition = p.number AND s.start_offset >= p.start_offset
            ORDER BY s.start_offset LIMIT 1), 0) AS first_at,
       greatest(p.newest_at, (
           SELECT s.created_at FROM queen.segment AS s
            WHERE s.partition = p.number
            ORDER BY s.start_offset DESC LIMIT 1)) AS newest_at
  FROM queen.partition AS p;
