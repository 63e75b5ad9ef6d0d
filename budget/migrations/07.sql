-- The ledger, version 7: answers that were published, with what it takes to ask for them anew. No facts of the
-- guarantee: what they cost is in entry. number: the order in which they were made, since one may be made of
-- others; version changes with every change; claim names the refresh under way.

CREATE TABLE dpproxy_ledger.publication (
    id uuid CONSTRAINT publication_once PRIMARY KEY DEFAULT gen_random_uuid(),
    number bigint GENERATED ALWAYS AS IDENTITY,
    name text NOT NULL CONSTRAINT publication_name UNIQUE CHECK (length(name) BETWEEN 1 AND 63),
    version uuid NOT NULL DEFAULT gen_random_uuid(),
    publisher text NOT NULL,
    query text NOT NULL,
    settings jsonb NOT NULL,
    refresh text NOT NULL CHECK (refresh IN ('epoch', 'period', 'once')),
    columns jsonb NOT NULL,
    comments jsonb NOT NULL,
    answer bytea NOT NULL,
    information bigint NOT NULL CHECK (information >= 0),
    calls bigint NOT NULL CHECK (calls >= 0),
    released_at timestamptz NOT NULL,
    due_at timestamptz,
    claim uuid,
    failure text
);
