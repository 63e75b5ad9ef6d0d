-- The ledger, version 12: an account's history is read a page at a time, by time, and what a replay repeats is found
-- without reading the account's other entries.

CREATE INDEX entry_answered ON dpproxy_ledger.entry (account, written_at, number)
    WHERE own AND kind IN ('settle', 'spend', 'replay');

CREATE INDEX entry_bought ON dpproxy_ledger.entry (account, release_key, number) WHERE own AND kind = 'settle';
