-- The ledger, version 12: an account's history is read a page at a time, by time, and what a replay repeats is found
-- without reading the account's other entries. An index of many entries takes longer than a statement may.

SET LOCAL statement_timeout = 0;

CREATE INDEX entry_answered ON dpproxy_ledger.entry (account, written_at, number)
    WHERE own AND kind IN ('settle', 'spend', 'replay');

CREATE INDEX entry_bought ON dpproxy_ledger.entry (account, release_key, number) WHERE own AND kind = 'settle';

CREATE INDEX entry_answered_at ON dpproxy_ledger.entry (written_at) WHERE own AND kind IN ('settle', 'spend', 'replay');

CREATE INDEX limit_change_by_account ON dpproxy_ledger.limit_change (account, number);
