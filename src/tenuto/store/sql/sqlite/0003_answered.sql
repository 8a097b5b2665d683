-- Finds the runs that wait for a decision without looking at those that have ended.

CREATE INDEX runs_suspended ON runs (n) WHERE status = 'suspended' AND durable = 1;
