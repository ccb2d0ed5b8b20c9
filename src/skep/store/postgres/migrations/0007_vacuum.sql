-- Vacuum for tables that rows are deleted from. Returning the empty end of a table to the operating
-- system takes an exclusive lock on it, for seconds on a large one: every request would wait. The
-- space is reused instead.
--
-- The defaults wait until a fifth of a table is dead, which is gigabytes of a large one. Most rows of
-- consumer, news and outbox live for seconds, so there the number of dead rows counts alone.
DO $$
DECLARE
    name text;
BEGIN
    FOREACH name IN ARRAY ARRAY[
        'queue', 'partition', 'segment', 'transaction_id', 'subscription', 'consumer',
        'dead_letter', 'trace_event', 'trace_name', 'outcome', 'entry', 'removal', 'lane',
        'lane_head', 'news', 'duty', 'outbox', 'queue_removal']
    LOOP
        EXECUTE format(
            'ALTER TABLE queen.%I SET (
                 vacuum_truncate = off,
                 autovacuum_vacuum_scale_factor = 0.02,
                 toast.vacuum_truncate = off,
                 toast.autovacuum_vacuum_scale_factor = 0.02)', name);
    END LOOP;
END
$$;

ALTER TABLE queen.consumer SET (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
    toast.autovacuum_vacuum_scale_factor = 0, toast.autovacuum_vacuum_threshold = 5000);
ALTER TABLE queen.news SET (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
    toast.autovacuum_vacuum_scale_factor = 0, toast.autovacuum_vacuum_threshold = 5000);
ALTER TABLE queen.outbox SET (
    autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
    toast.autovacuum_vacuum_scale_factor = 0, toast.autovacuum_vacuum_threshold = 5000);
ALTER TABLE queen.segment SET (
    autovacuum_vacuum_insert_scale_factor = 0.05,
    toast.autovacuum_vacuum_insert_scale_factor = 0.05);
ALTER TABLE queen.transaction_id SET (autovacuum_vacuum_insert_scale_factor = 0.05);
