-- The ledger, version 15: what was measured in an answer that an account has bought, so that other questions of the
-- account are answered from it. measure_key: rows, filters and measure; place: where it stands in the answer; groups:
-- what tells whether another question's groups are made of the answer's; request_key: by which it is replayed.

CREATE TABLE dpproxy_ledger.owned (
    account text NOT NULL REFERENCES dpproxy_ledger.account (name),
    measure_key bytea NOT NULL CHECK (length(measure_key) = 32),
    release_key bytea NOT NULL REFERENCES dpproxy_ledger.answer (release_key),
    place integer NOT NULL,
    request_key bytea NOT NULL,
    groups text NOT NULL,
    bought_at timestamptz NOT NULL,
    CONSTRAINT owned_once PRIMARY KEY (account, measure_key, release_key, place)
);

CREATE INDEX owned_by_release ON dpproxy_ledger.owned (release_key);
