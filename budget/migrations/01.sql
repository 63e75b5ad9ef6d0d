-- The ledger, version 1. Amounts are micro-units (units.py). Shared SQL of PostgreSQL, CockroachDB and
-- YugabyteDB only. Rows of pinned, entry, mark, answer, request and limit_change are never edited.

CREATE SCHEMA IF NOT EXISTS dpproxy_ledger;

CREATE TABLE dpproxy_ledger.migration (
    version integer CONSTRAINT migration_once PRIMARY KEY,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- What the guarantee is computed from, fixed when the ledger is made.
CREATE TABLE dpproxy_ledger.pinned (
    name text CONSTRAINT pinned_once PRIMARY KEY,
    value text NOT NULL
);

-- An account's balance: kept in step with its entries, and computable from them.
-- seen_at is the latest time the account has seen: its clock never runs backwards.
CREATE TABLE dpproxy_ledger.account (
    name text CONSTRAINT account_once PRIMARY KEY CHECK (length(name) BETWEEN 1 AND 200),
    limit_information bigint NOT NULL CHECK (limit_information >= 0),
    limit_calls bigint NOT NULL CHECK (limit_calls >= 0),
    period text NOT NULL CHECK (period IN ('none', 'day', 'week', 'month')),
    mode text NOT NULL CHECK (mode IN ('enforce', 'track')),
    used_information bigint NOT NULL DEFAULT 0 CHECK (used_information >= 0),
    used_calls bigint NOT NULL DEFAULT 0 CHECK (used_calls >= 0),
    reserved_information bigint NOT NULL DEFAULT 0 CHECK (reserved_information >= 0),
    reserved_calls bigint NOT NULL DEFAULT 0 CHECK (reserved_calls >= 0),
    period_number bigint NOT NULL DEFAULT 0,
    period_started timestamptz,
    seen_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    CONSTRAINT account_within_limit CHECK (
        mode = 'track' OR (
            used_information + reserved_information <= limit_information
            AND used_calls + reserved_calls <= limit_calls
        )
    )
);

CREATE TABLE dpproxy_ledger.limit_change (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    account text NOT NULL REFERENCES dpproxy_ledger.account (name),
    limit_information bigint NOT NULL,
    limit_calls bigint NOT NULL,
    period text NOT NULL,
    mode text NOT NULL,
    changed_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Stage 0 opens a reservation for each account of its chain, stage 1 resolves it, once; a replay is one row
-- that costs nothing. own: the account that asked; the others of its chain are shared.
CREATE TABLE dpproxy_ledger.entry (
    number bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    reservation uuid NOT NULL,
    account text NOT NULL REFERENCES dpproxy_ledger.account (name),
    own boolean NOT NULL,
    stage smallint NOT NULL,
    kind text NOT NULL,
    opened smallint CHECK (opened = 0),
    at_most_information bigint NOT NULL CHECK (at_most_information >= 0),
    at_most_calls bigint NOT NULL CHECK (at_most_calls >= 0),
    information bigint NOT NULL CHECK (information >= 0),
    calls bigint NOT NULL CHECK (calls >= 0),
    period_number bigint NOT NULL,
    written_at timestamptz NOT NULL,
    instance text,
    lease_until timestamptz,
    mechanism text,
    query text,
    release_key bytea,
    CONSTRAINT entry_kind CHECK (
        (stage = 0 AND kind = 'reserve' AND opened IS NULL)
        OR (stage = 1 AND kind IN ('settle', 'spend', 'release') AND opened IS NOT NULL)
        OR (stage = 1 AND kind = 'replay' AND opened IS NULL)
    ),
    CONSTRAINT entry_within_reservation CHECK (
        information <= at_most_information AND calls <= at_most_calls
    ),
    CONSTRAINT entry_once UNIQUE (reservation, account, stage),
    CONSTRAINT entry_amounts UNIQUE (reservation, account, stage, at_most_information, at_most_calls),
    CONSTRAINT entry_opened FOREIGN KEY (reservation, account, opened, at_most_information, at_most_calls)
        REFERENCES dpproxy_ledger.entry (reservation, account, stage, at_most_information, at_most_calls)
);

CREATE INDEX entry_by_account ON dpproxy_ledger.entry (account, number);

-- Whether the backend was reached: said once, so that a reservation given back can never be used.
CREATE TABLE dpproxy_ledger.mark (
    reservation uuid CONSTRAINT mark_once PRIMARY KEY,
    reached boolean NOT NULL,
    written_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE dpproxy_ledger.answer (
    release_key bytea CONSTRAINT answer_once PRIMARY KEY,
    reservation uuid NOT NULL CONSTRAINT answer_paid_once UNIQUE,
    answer bytea NOT NULL,
    information bigint NOT NULL CHECK (information >= 0),
    calls bigint NOT NULL CHECK (calls >= 0),
    epoch text NOT NULL,
    stored_at timestamptz NOT NULL
);

-- Which account has paid for which answer, by what it asked.
CREATE TABLE dpproxy_ledger.request (
    number bigint GENERATED ALWAYS AS IDENTITY,
    account text NOT NULL REFERENCES dpproxy_ledger.account (name),
    request_key bytea NOT NULL,
    release_key bytea NOT NULL REFERENCES dpproxy_ledger.answer (release_key),
    mechanism text NOT NULL,
    query text NOT NULL,
    CONSTRAINT request_once PRIMARY KEY (account, release_key, request_key)
);

CREATE INDEX request_by_key ON dpproxy_ledger.request (account, request_key, number);

CREATE TABLE dpproxy_ledger.epoch (
    name text CONSTRAINT epoch_once PRIMARY KEY,
    nonce bytea NOT NULL CHECK (length(nonce) = 32)
);

CREATE TABLE dpproxy_ledger.analyst (
    name text CONSTRAINT analyst_once PRIMARY KEY CHECK (length(name) BETWEEN 1 AND 63),
    verifier text NOT NULL,
    added_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
