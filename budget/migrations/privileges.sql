-- What a proxy may do with its ledger: add rows, move balances, prune answers; never edit or delete an entry.

GRANT USAGE ON SCHEMA dpproxy_ledger TO dpproxy_ledger;

GRANT SELECT ON dpproxy_ledger.migration TO dpproxy_ledger;

GRANT SELECT, INSERT ON dpproxy_ledger.pinned, dpproxy_ledger.account, dpproxy_ledger.limit_change,
    dpproxy_ledger.entry, dpproxy_ledger.mark, dpproxy_ledger.epoch, dpproxy_ledger.look,
    dpproxy_ledger.stream_paid, dpproxy_ledger.membership, dpproxy_ledger.approval TO dpproxy_ledger;

GRANT UPDATE (
    limit_information, limit_calls, limit_epsilon, period, mode, used_information, used_calls, used_epsilon,
    reserved_information, reserved_calls, reserved_epsilon, period_number, period_first, period_started, seen_at, frozen
) ON dpproxy_ledger.account TO dpproxy_ledger;

GRANT SELECT, INSERT, DELETE ON dpproxy_ledger.answer, dpproxy_ledger.request, dpproxy_ledger.choice,
    dpproxy_ledger.owned, dpproxy_ledger.statement, dpproxy_ledger.held, dpproxy_ledger.computing, dpproxy_ledger.analyst TO dpproxy_ledger;

GRANT SELECT, INSERT, UPDATE, DELETE ON dpproxy_ledger.publication TO dpproxy_ledger;

GRANT UPDATE (verifier) ON dpproxy_ledger.analyst TO dpproxy_ledger;

GRANT SELECT, INSERT, UPDATE ON dpproxy_ledger.flushed, dpproxy_ledger.policy TO dpproxy_ledger;

GRANT SELECT, INSERT, UPDATE ON dpproxy_ledger.refusal, dpproxy_ledger.refusal_shape TO dpproxy_ledger;

GRANT SELECT, INSERT, UPDATE (sealed, cleared_at, cleared_by) ON dpproxy_ledger.failure TO dpproxy_ledger;
