-- The ledger, version 16: which teams an analyst is in by the groups that an identity provider tells. Rows are facts:
-- the latest of an analyst counts. as_of: when the provider said so, by its clock.

CREATE TABLE dpproxy_ledger.membership (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    analyst text NOT NULL,
    as_of timestamptz NOT NULL,
    teams text[] NOT NULL
);

CREATE INDEX membership_of_analyst ON dpproxy_ledger.membership (analyst, number);
