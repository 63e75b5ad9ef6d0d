-- The ledger, version 11: what refused statements are like, counted as refusals are. shape: the statement without its
-- constants, or a keyed fingerprint of that.

CREATE TABLE dpproxy_ledger.refusal_shape (
    code text NOT NULL CHECK (length(code) = 5),
    shape text NOT NULL CHECK (length(shape) BETWEEN 1 AND 500),
    day date NOT NULL,
    counter uuid NOT NULL,
    times bigint NOT NULL CHECK (times > 0),
    PRIMARY KEY (day, code, shape, counter)
);
