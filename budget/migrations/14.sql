-- The ledger, version 14: the policy that a deployment buys under. A generation is another policy; while a deployment
-- changes from one to the next nothing is bought.

CREATE TABLE dpproxy_ledger.policy (
    deployment text CONSTRAINT policy_once PRIMARY KEY CHECK (length(deployment) > 0),
    generation bigint NOT NULL CHECK (generation > 0),
    buying boolean NOT NULL
);
