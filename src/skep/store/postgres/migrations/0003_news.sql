-- What servers tell each other. Each numbers its own on its lane, in the order of its commits; what
-- is a minute old is deleted, but for the last.
CREATE TABLE queen.news (
    lane    integer NOT NULL,
    number  bigint NOT NULL,
    content bytea NOT NULL,
    PRIMARY KEY (lane, number)
);

-- Work that one server does for all, until ``expires_at``.
CREATE TABLE queen.duty (
    name       text COLLATE "C" PRIMARY KEY,
    owner      uuid NOT NULL,
    expires_at timestamptz NOT NULL
) WITH (fillfactor = 50);
