-- Deleted queues whose rows are still to be removed, by a server in the background. What is not
-- listed here is never removed because its queue is missing: it may be what a restore left out.
--
-- ``emptied`` once all its rows were removed. A statement that began before the queue was deleted
-- may still add one, so the entry stays for a minute, and then the tables are looked at once more.
CREATE TABLE queen.queue_removal (
    queue      bigint PRIMARY KEY,
    emptied    boolean NOT NULL DEFAULT false,
    deleted_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Whoever deletes a queue, a server or an operator with SQL, lists it in the same transaction. The
-- subscriptions go at once, because a state of a consumer is valid while its subscription is there.
CREATE FUNCTION queen.list_queue_removal() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
    INSERT INTO queen.queue_removal (queue) VALUES (OLD.number) ON CONFLICT (queue) DO NOTHING;
    DELETE FROM queen.subscription WHERE queue = OLD.number;
    RETURN NULL;
END
$$;

CREATE TRIGGER list_queue_removal AFTER DELETE ON queen.queue
    FOR EACH ROW EXECUTE FUNCTION queen.list_queue_removal();
