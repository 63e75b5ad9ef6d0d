-- The ledger, version 11: what refused statements are like, counted as refusals are, and texts of answered ones.
-- shape: the statement without its constants, or a keyed fingerprint of that.

CREATE TABLE dpproxy_ledger.refusal_shape (
    code text NOT NULL CHECK (length(code) = 5),
    shape text NOT NULL CHECK (length(shape) BETWEEN 1 AND 500),
    day date NOT NULL,
    counter uuid NOT NULL,
    times bigint NOT NULL CHECK (times > 0),
    PRIMARY KEY (day, code, shape, counter)
);

-- The text that an account has bought an answer with, sealed by the proxy, for as long as the answer is kept.
CREATE TABLE dpproxy_ledger.statement (
    account text NOT NULL REFERENCES dpproxy_ledger.account (name),
    release_key bytea NOT NULL REFERENCES dpproxy_ledger.answer (release_key),
    sealed bytea NOT NULL,
    CONSTRAINT statement_once PRIMARY KEY (account, release_key)
);

CREATE INDEX statement_by_release ON dpproxy_ledger.statement (release_key);
