-- The ledger, version 3: running counts, whose releases continue one another and are paid for once.

-- Each look at a stream is an answer, and the looks are numbered: two that follow the same one cannot both be stored.
CREATE TABLE dpproxy_ledger.look (
    stream bytea NOT NULL,
    number bigint NOT NULL CHECK (number > 0),
    release_key bytea NOT NULL CONSTRAINT look_once UNIQUE,
    CONSTRAINT look_in_order PRIMARY KEY (stream, number)
);

-- In which of its periods an account has paid for a stream.
CREATE TABLE dpproxy_ledger.stream_paid (
    stream bytea NOT NULL,
    account text NOT NULL REFERENCES dpproxy_ledger.account (name),
    period_number bigint NOT NULL,
    CONSTRAINT stream_paid_once PRIMARY KEY (stream, account, period_number)
);
