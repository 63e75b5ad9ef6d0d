-- The ledger, version 18: statements that failed at the backend. Whatever makes one fail may be one person's row, so that
-- too many stop a login, or an analyst, until the owner has looked. Rows are facts, but for who has looked, and when.
-- login: the account of the login whose session asked; account: of whom it acted for; kind: 'failed' where the backend
-- raised, 'stopped' where it ran into the time-out, out of memory, or was lost; told: the client was told of it, and so
-- it counts; stops_login, stops_account: it was one too many; sealed: the backend's message, encrypted, until it is
-- cleared.

CREATE TABLE dpproxy_ledger.failure (
    reservation uuid CONSTRAINT failure_once PRIMARY KEY,
    failed_at timestamptz NOT NULL,
    login text NOT NULL REFERENCES dpproxy_ledger.account (name),
    account text NOT NULL REFERENCES dpproxy_ledger.account (name),
    kind text NOT NULL CHECK (kind IN ('failed', 'stopped')),
    told boolean NOT NULL,
    stops_login boolean NOT NULL,
    stops_account boolean NOT NULL,
    sealed bytea,
    cleared_at timestamptz,
    cleared_by text,
    CONSTRAINT failure_stops_if_told CHECK (told OR NOT (stops_login OR stops_account)),
    CONSTRAINT failure_cleared_by CHECK ((cleared_at IS NULL) = (cleared_by IS NULL))
);

CREATE INDEX failure_of_login ON dpproxy_ledger.failure (login) WHERE cleared_at IS NULL;
CREATE INDEX failure_of_account ON dpproxy_ledger.failure (account) WHERE cleared_at IS NULL;
CREATE INDEX failure_at ON dpproxy_ledger.failure (failed_at);

ALTER TABLE dpproxy_ledger.held ADD COLUMN login text;

UPDATE dpproxy_ledger.held SET login = entry.account
FROM dpproxy_ledger.entry
WHERE entry.reservation = held.reservation AND entry.own AND entry.stage = 0;

ALTER TABLE dpproxy_ledger.held ALTER COLUMN login SET NOT NULL;
