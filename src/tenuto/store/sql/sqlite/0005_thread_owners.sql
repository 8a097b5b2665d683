-- Finds the runs that wait for a decision on a thread.

CREATE INDEX runs_suspended_on_thread ON runs (scope_id) WHERE status = 'suspended' AND scope_kind = 'thread';
