-- What a write was based on, named so that no other writer can have made the same.

-- Versions order the writes of a consumer's state; the token, drawn at random, says whose it is.
ALTER TABLE queen.consumer ADD token bigint NOT NULL DEFAULT 0;

-- Another number after every change of a queue's configuration.
ALTER TABLE queen.queue ADD version bigint NOT NULL DEFAULT 0;

-- The server that published an event. A lane changes hands; an owner is one process.
ALTER TABLE queen.news ADD owner uuid;
