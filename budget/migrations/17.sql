-- The ledger, version 17: which limits a second person has approved. Rows are facts: the latest counts. verifier: of that
-- person's password; limits: of the file, NULL where from then on one person is enough.

CREATE TABLE dpproxy_ledger.approval (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    approved_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    verifier text NOT NULL,
    limits text
);
