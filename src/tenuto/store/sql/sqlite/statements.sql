-- Every statement the SQLite store runs, by name. `format` comes first in what is decoded.

-- name: counter
SELECT value FROM counters WHERE name = ?;

-- name: count
UPDATE counters SET value = value + ? WHERE name = ?;

-- name: lease
SELECT owner, epoch, expires_at, held FROM leases WHERE scope_kind = ? AND scope_id = ? AND scope_resource = ?;

-- name: take_lease
INSERT INTO leases (scope_kind, scope_id, scope_resource, owner, epoch, expires_at, held) VALUES (?, ?, ?, ?, ?, ?, 1)
ON CONFLICT (scope_kind, scope_id, scope_resource) DO UPDATE
SET owner = excluded.owner, epoch = excluded.epoch, expires_at = excluded.expires_at, held = 1;

-- name: renew_lease
UPDATE leases SET expires_at = ?
WHERE scope_kind = ? AND scope_id = ? AND scope_resource = ? AND epoch = ? AND held = 1;

-- name: reserve_lease
UPDATE leases SET owner = ?, expires_at = ?, held = 0
WHERE scope_kind = ? AND scope_id = ? AND scope_resource = ? AND epoch = ? AND held = 1;

-- name: drop_lease
DELETE FROM leases WHERE scope_kind = ? AND scope_id = ? AND scope_resource = ? AND epoch = ? AND held = 1;

-- name: add_run
INSERT INTO runs (
    run_id, format, agent_id, scope_kind, scope_id, scope_resource, status, durable, resource_id, thread_id,
    parent_id, parent_call_id, root_id, loop_version, created_at, updated_at
) VALUES (?, ?, ?, ?, ?, ?, 'running', ?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: wake_run
UPDATE runs SET status = 'running', reason = NULL, error = NULL, loop_version = ?, updated_at = ? WHERE run_id = ?;

-- name: run
SELECT format, run_id, agent_id, scope_kind, scope_id, scope_resource, status, durable, resource_id, thread_id,
    parent_id, parent_call_id, root_id, loop_version, first_event, reason, error, created_at, updated_at
FROM runs WHERE run_id = ?;

-- name: run_by_n
SELECT format, run_id, agent_id, scope_kind, scope_id, scope_resource, status, durable, resource_id, thread_id,
    parent_id, parent_call_id, root_id, loop_version, first_event, reason, error, created_at, updated_at
FROM runs WHERE n = ?;

-- name: runs
SELECT format, run_id, agent_id, scope_kind, scope_id, scope_resource, status, durable, resource_id, thread_id,
    parent_id, parent_call_id, root_id, loop_version, first_event, reason, error, created_at, updated_at
FROM runs WHERE resource_id IS ? ORDER BY n DESC LIMIT ?;

-- name: runs_by_status
SELECT format, run_id, agent_id, scope_kind, scope_id, scope_resource, status, durable, resource_id, thread_id,
    parent_id, parent_call_id, root_id, loop_version, first_event, reason, error, created_at, updated_at
FROM runs WHERE resource_id IS ? AND status = ? ORDER BY n DESC LIMIT ?;

-- name: runs_of_anyone
SELECT format, run_id, agent_id, scope_kind, scope_id, scope_resource, status, durable, resource_id, thread_id,
    parent_id, parent_call_id, root_id, loop_version, first_event, reason, error, created_at, updated_at
FROM runs WHERE n <= ? ORDER BY n DESC LIMIT ?;

-- name: runs_of_anyone_by_status
SELECT format, run_id, agent_id, scope_kind, scope_id, scope_resource, status, durable, resource_id, thread_id,
    parent_id, parent_call_id, root_id, loop_version, first_event, reason, error, created_at, updated_at
FROM runs WHERE n <= ? AND status = ? ORDER BY n DESC LIMIT ?;

-- name: children
SELECT format, run_id, agent_id, scope_kind, scope_id, scope_resource, status, durable, resource_id, thread_id,
    parent_id, parent_call_id, root_id, loop_version, first_event, reason, error, created_at, updated_at
FROM runs WHERE parent_id = ? ORDER BY n;

-- name: children_of
SELECT n, run_id, durable, status FROM runs WHERE parent_id = ? ORDER BY n;

-- name: is_child
SELECT 1 FROM runs WHERE n = ? AND parent_id IS NOT NULL;

-- name: left_running
SELECT n, run_id, durable FROM runs
WHERE status = 'running' AND scope_kind = ? AND scope_id = ? AND scope_resource = ? AND parent_id IS NULL ORDER BY n;

-- Not children: their parent's step recovers them.
-- name: running
SELECT runs.n, leases.owner, leases.expires_at, NULL, NULL FROM runs INDEXED BY runs_running LEFT JOIN leases
ON leases.scope_kind = runs.scope_kind AND leases.scope_id = runs.scope_id
    AND leases.scope_resource = runs.scope_resource
WHERE runs.status = 'running' AND runs.durable = 1 AND runs.parent_id IS NULL ORDER BY runs.n;

-- name: suspended
SELECT runs.n, leases.owner, leases.expires_at, runs.run_id, runs.resource_id
FROM runs INDEXED BY runs_suspended LEFT JOIN leases
ON leases.scope_kind = runs.scope_kind AND leases.scope_id = runs.scope_id
    AND leases.scope_resource = runs.scope_resource
WHERE runs.status = 'suspended' AND runs.durable = 1 AND runs.parent_id IS NULL AND EXISTS (
    SELECT 1 FROM posts WHERE queue_kind = 'run' AND queue_id = runs.run_id AND queue_resource = ''
) ORDER BY runs.n;

-- name: plain_running
SELECT runs.n, runs.run_id, runs.scope_kind, runs.scope_id, runs.scope_resource, leases.owner, leases.expires_at,
    leases.epoch
FROM runs INDEXED BY runs_running LEFT JOIN leases
ON leases.scope_kind = runs.scope_kind AND leases.scope_id = runs.scope_id
    AND leases.scope_resource = runs.scope_resource
WHERE runs.status = 'running' AND runs.durable = 0 AND runs.parent_id IS NULL;

-- The lease counts only when it is held under the epoch that is given; everything a commit has to know, at one stroke.
-- name: open_run
SELECT leases.epoch, runs.n, runs.format, runs.scope_kind, runs.scope_id, runs.scope_resource, runs.status,
    runs.durable, runs.seq, runs.events
FROM (SELECT 1) LEFT JOIN leases
ON leases.scope_kind = ? AND leases.scope_id = ? AND leases.scope_resource = ? AND leases.epoch = ? AND leases.held = 1
LEFT JOIN runs ON runs.run_id = ?;

-- name: holds
SELECT 1 FROM leases WHERE scope_kind = ? AND scope_id = ? AND scope_resource = ? AND epoch = ? AND held = 1;

-- name: parent_status
SELECT parents.status FROM runs JOIN runs AS parents ON parents.run_id = runs.parent_id WHERE runs.run_id = ?;

-- name: thread_of_run
SELECT thread_id, resource_id FROM runs WHERE n = ?;

-- name: advance_run
UPDATE runs SET seq = ?, events = ? WHERE n = ?;

-- name: keep_run
UPDATE runs SET durable = 1, seq = 0, events = ?1, first_event = ?1 WHERE n = ?2;

-- name: end_segment
UPDATE runs SET status = ?, reason = ?, error = ?, updated_at = ? WHERE n = ?;

-- name: add_record
INSERT INTO records (place, format, record) VALUES ((? << 32) + ?, ?, ?);

-- name: add_events
INSERT INTO events (place, format, count, chunks) VALUES ((? << 32) + ?, ?, ?, ?);

-- Nothing but events, by the holder of the scope of a durable run that is not over, going on from what is stored.
-- name: append_events
INSERT INTO events (place, format, count, chunks)
SELECT (runs.n << 32) + runs.events, ?1, ?2, ?3 FROM runs JOIN leases
ON leases.scope_kind = runs.scope_kind AND leases.scope_id = runs.scope_id
    AND leases.scope_resource = runs.scope_resource
WHERE runs.run_id = ?4 AND runs.scope_kind = ?5 AND runs.scope_id = ?6 AND runs.scope_resource = ?7
    AND leases.epoch = ?8 AND leases.held = 1 AND runs.format = ?1 AND runs.durable = 1
    AND runs.status IN ('running', 'suspended') AND runs.seq = ?9 AND runs.events = ?10;

-- name: put_pending
INSERT INTO pending (run, call_id, format, closed, call) VALUES (?, ?, ?, ?, ?)
ON CONFLICT (run, call_id) DO UPDATE SET format = excluded.format, closed = excluded.closed, call = excluded.call;

-- name: drop_pending
DELETE FROM pending WHERE run = ?;

-- name: effect_holder
SELECT status, run_id, call_id FROM effects WHERE effect_key = ?;

-- name: put_effect
INSERT INTO effects (effect_key, format, run_id, call_id, status, updated_at, effect) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (effect_key) DO UPDATE SET format = excluded.format, run_id = excluded.run_id, call_id = excluded.call_id,
    status = excluded.status, updated_at = excluded.updated_at, effect = excluded.effect;

-- name: records
SELECT records.format, records.record FROM runs JOIN records
ON records.place >= runs.n << 32 AND records.place < (runs.n + 1) << 32
WHERE runs.run_id = ? AND (? OR runs.resource_id IS ?) ORDER BY records.place;

-- name: log
SELECT format, n, first_event, events FROM runs WHERE run_id = ? AND (? OR resource_id IS ?) AND durable = 1;

-- name: event_count
SELECT events FROM runs WHERE run_id = ? AND (? OR resource_id IS ?);

-- The rows that hold the events of run number ?1 from ?2 up to, not including, ?3.
-- name: events
SELECT format, place & 4294967295, chunks FROM events
WHERE place < (?1 << 32) + ?3 AND place >= (
    SELECT COALESCE(MAX(place), ?1 << 32) FROM events WHERE place >= ?1 << 32 AND place <= (?1 << 32) + ?2
) ORDER BY place;

-- name: pending
SELECT pending.format, pending.call FROM runs JOIN pending ON pending.run = runs.n
WHERE runs.run_id = ? AND (? OR runs.resource_id IS ?) AND pending.closed = 0 ORDER BY pending.n;

-- name: asked
SELECT runs.status, pending.format, pending.call
FROM runs LEFT JOIN pending ON pending.run = runs.n AND pending.call_id = ? WHERE runs.run_id = ?;

-- name: effect
SELECT format, effect FROM effects WHERE effect_key = ?;

-- name: posts
SELECT format, item, post_key FROM posts
WHERE queue_kind = ? AND queue_id = ? AND queue_resource = ? AND seq >= ? ORDER BY seq;

-- name: posted
SELECT format, item, seq FROM posts WHERE queue_kind = ? AND queue_id = ? AND queue_resource = ? AND post_key = ?;

-- name: queue_length
SELECT COALESCE(MAX(seq) + 1, 0) FROM posts WHERE queue_kind = ? AND queue_id = ? AND queue_resource = ?;

-- name: add_post
INSERT INTO posts (queue_kind, queue_id, queue_resource, seq, post_key, format, posted_at, item)
VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- name: drop_posts
DELETE FROM posts WHERE queue_kind = 'run' AND queue_id = ? AND queue_resource = '';

-- name: versioned
SELECT format, value, version FROM versioned WHERE kind = ? AND row_key = ?;

-- name: put_versioned
INSERT INTO versioned (kind, row_key, version, format, updated_at, value) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (kind, row_key) DO UPDATE SET version = excluded.version, format = excluded.format,
    updated_at = excluded.updated_at, value = excluded.value;

-- name: oldest_forgettable
SELECT n, run_id FROM runs
WHERE durable = 0 AND status NOT IN ('running', 'suspended') AND parent_id IS NULL ORDER BY updated_at, n LIMIT 1;

-- name: ended_before
SELECT n, run_id FROM runs
WHERE durable = 1 AND status NOT IN ('running', 'suspended') AND parent_id IS NULL AND pruned = ?
    AND updated_at <= ?
ORDER BY updated_at LIMIT ?;

-- name: last_events
SELECT format, place & 4294967295, chunks FROM events
WHERE place >= ?1 << 32 AND place < (?1 + 1) << 32 ORDER BY place DESC LIMIT 1;

-- name: drop_events
DELETE FROM events WHERE place >= ?1 << 32 AND place < (?1 + 1) << 32;

-- name: drop_records
DELETE FROM records WHERE place >= ?1 << 32 AND place < (?1 + 1) << 32;

-- name: mark_pruned
UPDATE runs SET pruned = 1, first_event = ? WHERE n = ?;

-- name: at_rest
SELECT n FROM runs
WHERE run_id = ? AND (? OR resource_id IS ?) AND durable = 1 AND status != 'running' AND parent_id IS NULL;

-- name: move_first
UPDATE runs SET first_event = ? WHERE n = ?;

-- name: drop_run
DELETE FROM runs WHERE n = ?;
