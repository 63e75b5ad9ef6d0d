-- The ledger, version 4: a settlement tells what the noise of its answer was.

ALTER TABLE dpproxy_ledger.entry ADD COLUMN noise text;
