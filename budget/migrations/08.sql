-- The ledger, version 8: what an account has used may be of several of its periods, where the owner has made them
-- longer: of all from number period_first on.

ALTER TABLE dpproxy_ledger.account ADD COLUMN period_first bigint NOT NULL DEFAULT 0;

UPDATE dpproxy_ledger.account SET period_first = period_number;
