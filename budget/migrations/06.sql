-- The ledger, version 6: for whom a tool's comment says that it asked, of reservations and replays.

ALTER TABLE dpproxy_ledger.entry ADD COLUMN attributed text;
