-- The ledger, version 9: private choices inside of answers, such as the length that totals were clipped to, by what
-- they were made for. An account uses one again that is part of an answer it has paid for. place: where it stands.

CREATE TABLE dpproxy_ledger.choice (
    account text NOT NULL REFERENCES dpproxy_ledger.account (name),
    choice_key bytea NOT NULL,
    place integer NOT NULL,
    release_key bytea NOT NULL REFERENCES dpproxy_ledger.answer (release_key),
    CONSTRAINT choice_once PRIMARY KEY (account, choice_key)
);

CREATE INDEX choice_by_release ON dpproxy_ledger.choice (release_key);
