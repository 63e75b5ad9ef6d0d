-- The ledger, version 5: how often each account was refused, and with which code. What a process has counted on a
-- day is one row, which grows; saying the same count again changes nothing.

CREATE TABLE dpproxy_ledger.refusal (
    account text NOT NULL,
    code text NOT NULL CHECK (length(code) = 5),
    day date NOT NULL,
    counter uuid NOT NULL,
    times bigint NOT NULL CHECK (times > 0),
    last_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (day, account, code, counter)
);
