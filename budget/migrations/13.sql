-- The ledger, version 13: pure epsilon, summed beside the units, in millionths of eps_per. limit_epsilon is a filter of
-- its own, none where it is 0: a step is admitted by either. 2^60 is the pure epsilon of what has none, which no limit
-- reaches; what was charged before this version may have had none. Sums are exact, so that a reservation that is given
-- back leaves no trace. No defaults are kept: who writes an entry says its pure epsilon.

SET LOCAL statement_timeout = 0;

ALTER TABLE dpproxy_ledger.account
    ADD COLUMN limit_epsilon bigint NOT NULL DEFAULT 0 CHECK (limit_epsilon BETWEEN 0 AND 1152921504606846975),
    ADD COLUMN used_epsilon numeric(40) NOT NULL DEFAULT 0 CHECK (used_epsilon >= 0),
    ADD COLUMN reserved_epsilon numeric(40) NOT NULL DEFAULT 0 CHECK (reserved_epsilon >= 0);

ALTER TABLE dpproxy_ledger.limit_change ADD COLUMN limit_epsilon bigint NOT NULL DEFAULT 0;

ALTER TABLE dpproxy_ledger.entry
    ADD COLUMN at_most_epsilon bigint NOT NULL DEFAULT 1152921504606846976 CHECK (at_most_epsilon >= 0),
    ADD COLUMN epsilon bigint NOT NULL DEFAULT 1152921504606846976 CHECK (epsilon >= 0);

UPDATE dpproxy_ledger.entry SET
    at_most_epsilon = CASE WHEN at_most_information + at_most_calls = 0 THEN 0 ELSE at_most_epsilon END,
    epsilon = 0
WHERE information + calls = 0;

ALTER TABLE dpproxy_ledger.entry
    ALTER COLUMN at_most_epsilon DROP DEFAULT,
    ALTER COLUMN epsilon DROP DEFAULT,
    ADD CONSTRAINT entry_within_epsilon CHECK (epsilon <= at_most_epsilon),
    -- Two units have at least one eps_per of pure epsilon: so limit_epsilon bounds units, too (accounting.md, Theorem 7).
    ADD CONSTRAINT entry_units CHECK (information <= 2 * epsilon);

ALTER TABLE dpproxy_ledger.answer ADD COLUMN epsilon bigint NOT NULL DEFAULT 1152921504606846976;
ALTER TABLE dpproxy_ledger.answer ALTER COLUMN epsilon DROP DEFAULT;

UPDATE dpproxy_ledger.account SET
    used_epsilon = COALESCE((
        SELECT sum(entry.epsilon) FROM dpproxy_ledger.entry
        WHERE entry.account = account.name AND entry.stage = 1
            AND entry.period_number BETWEEN account.period_first AND account.period_number
    ), 0),
    reserved_epsilon = COALESCE((
        SELECT sum(opening.at_most_epsilon) FROM dpproxy_ledger.entry AS opening
        WHERE opening.account = account.name AND opening.stage = 0 AND NOT EXISTS (
            SELECT 1 FROM dpproxy_ledger.entry AS resolution
            WHERE resolution.reservation = opening.reservation AND resolution.account = opening.account
                AND resolution.stage = 1
        )
    ), 0);

ALTER TABLE dpproxy_ledger.account DROP CONSTRAINT account_within_limit;
ALTER TABLE dpproxy_ledger.account ADD CONSTRAINT account_within_limits CHECK (
    mode = 'track' OR (
        used_calls + reserved_calls <= limit_calls
        AND (
            used_information + reserved_information <= limit_information
            OR used_epsilon + reserved_epsilon <= limit_epsilon
        )
    )
);
