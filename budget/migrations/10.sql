-- The ledger, version 10: the private choices of a published answer, such as the length that totals were clipped to, by
-- what they were made for. Its publisher has paid for them once, and its refreshes use them again.

ALTER TABLE dpproxy_ledger.publication ADD COLUMN choices jsonb NOT NULL DEFAULT '{}';
