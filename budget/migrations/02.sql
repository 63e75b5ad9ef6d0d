-- The ledger, version 2: accounts can be frozen, entries tell their whole story without the answers, which may
-- therefore be pruned; what is held and what is being computed is found without a scan of the entries.

ALTER TABLE dpproxy_ledger.account ADD COLUMN frozen boolean NOT NULL DEFAULT false;
ALTER TABLE dpproxy_ledger.limit_change ADD COLUMN frozen boolean NOT NULL DEFAULT false;

-- replayed: the answer was stored before, by this account or another.
ALTER TABLE dpproxy_ledger.entry ADD COLUMN replayed boolean NOT NULL DEFAULT false;

UPDATE dpproxy_ledger.entry SET replayed = true
WHERE kind = 'replay' OR (kind = 'settle' AND EXISTS (
    SELECT 1 FROM dpproxy_ledger.answer
    WHERE answer.release_key = entry.release_key AND answer.reservation <> entry.reservation
));

UPDATE dpproxy_ledger.entry SET query = asked.query, mechanism = asked.mechanism
FROM dpproxy_ledger.request AS asked
WHERE entry.kind = 'replay' AND asked.account = entry.account AND asked.release_key = entry.release_key
    AND asked.number = (
        SELECT min(number) FROM dpproxy_ledger.request AS first
        WHERE first.account = asked.account AND first.release_key = asked.release_key
    );

CREATE INDEX answer_by_epoch ON dpproxy_ledger.answer (epoch);
CREATE INDEX request_by_release ON dpproxy_ledger.request (release_key);

-- Reservations that are open, and whose they are. A working table: the facts are in entry.
CREATE TABLE dpproxy_ledger.held (
    reservation uuid CONSTRAINT held_once PRIMARY KEY,
    instance text NOT NULL,
    lease_until timestamptz NOT NULL
);

CREATE INDEX held_by_lease ON dpproxy_ledger.held (lease_until);

INSERT INTO dpproxy_ledger.held (reservation, instance, lease_until)
SELECT opening.reservation, opening.instance, opening.lease_until
FROM dpproxy_ledger.entry AS opening
WHERE opening.own AND opening.stage = 0 AND NOT EXISTS (
    SELECT 1 FROM dpproxy_ledger.entry AS resolution
    WHERE resolution.reservation = opening.reservation AND resolution.stage = 1
);

-- Never holds a committed row: an uncommitted one says that its key is being computed.
CREATE TABLE dpproxy_ledger.computing (
    key bytea CONSTRAINT computing_once PRIMARY KEY
);

-- Written for the sake of the commit alone: what was committed before is on disk when it returns.
CREATE TABLE dpproxy_ledger.flushed (
    session integer CONSTRAINT flushed_once PRIMARY KEY,
    at timestamptz NOT NULL
);

INSERT INTO dpproxy_ledger.pinned (name, value)
SELECT 'ledger', gen_random_uuid()::text
WHERE NOT EXISTS (SELECT 1 FROM dpproxy_ledger.pinned WHERE name = 'ledger');
