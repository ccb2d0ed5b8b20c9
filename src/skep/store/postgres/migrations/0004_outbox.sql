-- What applications push in their own transactions. A server appends it once that is committed, and
-- deletes it in the same commit; what cannot be appended stays, and says why.
CREATE TABLE queen.outbox (
    number         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    queue          text COLLATE "C" NOT NULL,
    partition      text COLLATE "C" NOT NULL DEFAULT 'Default',
    payload        bytea NOT NULL,
    transaction_id text COLLATE "C",
    created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    error          text,
    failed_at      timestamptz
);

-- Refused rows may lie there for long; nobody should step over them twenty times a second.
CREATE INDEX outbox_waiting ON queen.outbox (number) WHERE failed_at IS NULL;

-- As a server checks names, so that whoever gives a wrong one is told at once.
CREATE FUNCTION queen.check_name(field text, name text) RETURNS void
LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF coalesce(name, '') = '' THEN
        RAISE invalid_parameter_value USING MESSAGE = field || ' must not be empty';
    ELSIF octet_length(convert_to(name, 'UTF8')) > 255 THEN
        RAISE invalid_parameter_value USING MESSAGE = field || ' must have at most 255 bytes';
    ELSIF name ~ '[\u0001-\u001F\u007F-\u009F]' THEN
        RAISE invalid_parameter_value
        USING MESSAGE = field || ' must not contain control characters';
    END IF;
END
$$;

-- With the rights of who owns the table: an application needs none but to call it.
CREATE FUNCTION queen.enqueue(
    queue text, partition text, payload bytea, transaction_id text DEFAULT NULL
) RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    made bigint;
BEGIN
    PERFORM queen.check_name('queue', $1);
    PERFORM queen.check_name('partition', coalesce($2, 'Default'));
    IF $3 IS NULL THEN
        RAISE invalid_parameter_value USING MESSAGE = 'payload must not be null';
    ELSIF $4 IS NOT NULL AND length($4) NOT BETWEEN 1 AND 255 THEN
        RAISE invalid_parameter_value
        USING MESSAGE = 'transaction_id must have 1 to 255 characters';
    END IF;
    INSERT INTO queen.outbox AS o (queue, partition, payload, transaction_id)
    VALUES ($1, coalesce($2, 'Default'), $3, $4)
    RETURNING o.number INTO made;
    RETURN made;
END
$$;

CREATE FUNCTION queen.enqueue(
    queue text, partition text, payload text, transaction_id text DEFAULT NULL
) RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
RETURN queen.enqueue($1, $2, convert_to($3, 'UTF8'), $4);

CREATE FUNCTION queen.enqueue(
    queue text, partition text, payload jsonb, transaction_id text DEFAULT NULL
) RETURNS bigint
LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp
RETURN queen.enqueue($1, $2, $3::text, $4);

REVOKE EXECUTE ON FUNCTION queen.enqueue(text, text, bytea, text),
                           queen.enqueue(text, text, text, text),
                           queen.enqueue(text, text, jsonb, text) FROM PUBLIC;
