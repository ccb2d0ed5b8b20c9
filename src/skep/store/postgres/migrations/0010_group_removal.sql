-- Groups whose states are still to be removed, by a server in the background, or are being written.
--
-- ``starting`` while the first states of a new group are written, in several transactions. They count
-- when its subscription is there, and the entry goes with the transaction that makes it. If it was
-- not renewed for a minute its server has given up, and the states are removed.
--
-- ``emptied`` once all states were removed. A statement that began before the group was deleted may
-- still add one, so the entry stays for a minute, and then the table is looked at once more.
CREATE TABLE queen.group_removal (
    queue          bigint NOT NULL,
    consumer_group text COLLATE "C" NOT NULL,
    subscription   text NOT NULL,
    starting       boolean NOT NULL DEFAULT false,
    emptied        boolean NOT NULL DEFAULT false,
    listed_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (queue, consumer_group, subscription)
);

-- Whoever deletes a group, a server or an operator with SQL, lists it in the same transaction. The
-- states of a deleted queue are removed with its other rows.
CREATE FUNCTION queen.list_group_removal() RETURNS trigger
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog AS $$
BEGIN
    INSERT INTO queen.group_removal (queue, consumer_group, subscription)
    SELECT OLD.queue, OLD.consumer_group, OLD.id
     WHERE EXISTS (SELECT FROM queen.queue AS q WHERE q.number = OLD.queue)
        ON CONFLICT DO NOTHING;
    RETURN NULL;
END
$$;

CREATE TRIGGER list_group_removal AFTER DELETE ON queen.subscription
    FOR EACH ROW EXECUTE FUNCTION queen.list_group_removal();

ALTER TABLE queen.group_removal SET (
    vacuum_truncate = off, autovacuum_vacuum_scale_factor = 0.02,
    toast.vacuum_truncate = off, toast.autovacuum_vacuum_scale_factor = 0.02);
