-- Every statement of the SQLite store about threads, vectors and scores, by name, as in statements.sql.

-- name: thread_owner
SELECT resource FROM threads WHERE thread_id = ?;

-- Who has a run on a thread that is not over.
-- name: run_owners
SELECT scope_resource FROM runs WHERE status = 'running' AND scope_kind = 'thread' AND scope_id = ?1
UNION SELECT scope_resource FROM runs WHERE status = 'suspended' AND scope_kind = 'thread' AND scope_id = ?1;

-- name: thread
SELECT format, n, thread_id, resource, title, version, messages, root_kind, root_id, root_resource, created_at,
    updated_at, metadata
FROM threads WHERE thread_id = ?;

-- name: thread_by_n
SELECT format, n, thread_id, resource, title, version, messages, root_kind, root_id, root_resource, created_at,
    updated_at, metadata
FROM threads WHERE n = ?;

-- name: thread_times
SELECT format, n, created_at, updated_at, metadata FROM threads
WHERE resource = ? AND root_kind IS ? AND root_id IS ? AND root_resource IS ? ORDER BY n;

-- name: thread_times_of_anyone
SELECT format, n, created_at, updated_at, metadata FROM threads
WHERE n > 0 AND root_kind IS ? AND root_id IS ? AND root_resource IS ? ORDER BY n;

-- name: add_thread
INSERT INTO threads (
    thread_id, format, resource, title, version, root_kind, root_id, root_resource, created_at, updated_at, metadata
) VALUES (?, ?, ?, ?, 1, ?, ?, ?, ?, ?, ?);

-- name: touch_thread
UPDATE threads SET messages = ?, updated_at = ? WHERE n = ?;

-- name: retitle_thread
UPDATE threads SET format = ?, title = ?, version = ?, updated_at = ?, metadata = ? WHERE n = ?;

-- name: sub_threads
SELECT n FROM threads WHERE root_kind = ? AND root_id = ? AND root_resource = ?;

-- name: drop_thread
DELETE FROM threads WHERE n = ?;

-- name: threads_untouched
SELECT n FROM threads WHERE n > 0 AND updated_at <= ? AND root_kind IS NULL;

-- Nobody drives a run in it, and none waits in it.
-- name: thread_at_rest
SELECT threads.thread_id, threads.resource, leases.owner, leases.expires_at FROM threads LEFT JOIN leases
ON leases.scope_kind = 'thread' AND leases.scope_id = threads.thread_id AND leases.scope_resource = threads.resource
WHERE threads.n = ? AND threads.updated_at <= ? AND NOT EXISTS (
    SELECT 1 FROM runs INDEXED BY runs_open_in_thread
    WHERE runs.thread_id = threads.thread_id AND runs.status IN ('running', 'suspended')
);

-- name: message_place
SELECT place FROM messages WHERE message_id = ?1 AND place >= ?2 << 32 AND place < (?2 + 1) << 32;

-- name: message_places
SELECT place FROM messages WHERE message_id = ?;

-- name: add_message
INSERT INTO messages (place, message_id, format, message) VALUES (?, ?, ?, ?);

-- name: replace_message
UPDATE messages SET format = ?, message = ? WHERE place = ?;

-- name: drop_message
DELETE FROM messages WHERE place = ?;

-- name: drop_messages
DELETE FROM messages WHERE place >= ?1 << 32 AND place < (?1 + 1) << 32;

-- From place ?1 up to, not including, ?2, moved by ?3.
-- name: copy_messages
INSERT INTO messages (place, message_id, format, message)
SELECT place + ?3, lower(hex(randomblob(16))), format, message FROM messages
WHERE place >= ?1 AND place < ?2 ORDER BY place;

-- name: last_place
SELECT MAX(place) FROM messages WHERE place >= ?1 << 32 AND place < (?1 + 1) << 32;

-- name: messages_after
SELECT format, place, message_id, message FROM messages WHERE place >= ? AND place < ? ORDER BY place LIMIT ?;

-- name: messages_before
SELECT format, place, message_id, message FROM messages WHERE place >= ? AND place < ? ORDER BY place DESC LIMIT ?;

-- name: message
SELECT format, place, message_id, message FROM messages WHERE place = ?;

-- name: add_vector
INSERT INTO vectors (resource, space, message, message_id, part, format, vector) VALUES (?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (message, space, part) DO UPDATE SET format = excluded.format, vector = excluded.vector;

-- name: copy_vectors
INSERT INTO vectors (resource, space, message, message_id, part, format, vector)
SELECT ?4, vectors.space, messages.place, messages.message_id, vectors.part, vectors.format, vectors.vector
FROM vectors JOIN messages ON messages.place = vectors.message + ?3
WHERE vectors.message >= ?1 AND vectors.message < ?2 ORDER BY vectors.place;

-- name: drop_vectors
DELETE FROM vectors WHERE message >= ?1 << 32 AND message < (?1 + 1) << 32;

-- name: drop_vectors_of_message
DELETE FROM vectors WHERE message = ?;

-- name: unindex_message
DELETE FROM vectors WHERE message = ? AND resource = ? AND (? IS NULL OR space = ?);

-- name: unindex_thread
DELETE FROM vectors WHERE message >= ?1 << 32 AND message < (?1 + 1) << 32 AND (?2 IS NULL OR space = ?2);

-- name: unindex_resource
DELETE FROM vectors WHERE resource = ? AND (? IS NULL OR space = ?);

-- name: vectors
SELECT vectors.format, vectors.place, threads.thread_id, vectors.resource, vectors.message_id, vectors.part,
    vectors.space, vectors.vector
FROM vectors CROSS JOIN threads ON threads.n = vectors.message >> 32
WHERE vectors.resource = ? AND vectors.space = ? AND vectors.place > ? ORDER BY vectors.place LIMIT ?;

-- name: vectors_of_anyone
SELECT vectors.format, vectors.place, threads.thread_id, vectors.resource, vectors.message_id, vectors.part,
    vectors.space, vectors.vector
FROM vectors CROSS JOIN threads ON threads.n = vectors.message >> 32
WHERE vectors.space = ? AND vectors.place > ? ORDER BY vectors.place LIMIT ?;

-- name: vectors_of_thread
SELECT vectors.format, vectors.place, threads.thread_id, vectors.resource, vectors.message_id, vectors.part,
    vectors.space, vectors.vector
FROM vectors CROSS JOIN threads ON threads.n = vectors.message >> 32
WHERE vectors.message >= ?1 << 32 AND vectors.message < (?1 + 1) << 32 AND vectors.space = ?2 AND vectors.place > ?3
ORDER BY vectors.place LIMIT ?4;

-- name: score
SELECT format, score FROM scores WHERE score_id = ?;

-- name: add_score
INSERT INTO scores (score_id, format, resource_id, run_id, scorer_id, entity_id, created_at, score)
VALUES (?, ?, ?, ?, ?, ?, ?, ?);

-- name: drop_scores
DELETE FROM scores WHERE n IN (SELECT n FROM scores WHERE n > 0 AND created_at <= ? ORDER BY n LIMIT ?);

-- name: scores
SELECT format, score FROM scores
WHERE resource_id IS ?1 AND (?2 IS NULL OR scorer_id = ?2) AND (?3 IS NULL OR entity_id = ?3)
ORDER BY n DESC LIMIT ?5 OFFSET ?4;

-- name: scores_of_anyone
SELECT format, score FROM scores
WHERE n > 0 AND (?1 IS NULL OR scorer_id = ?1) AND (?2 IS NULL OR entity_id = ?2)
ORDER BY n DESC LIMIT ?4 OFFSET ?3;

-- name: scores_of_run
SELECT format, score FROM scores
WHERE run_id = ?1 AND (?2 OR resource_id IS ?3) AND (?4 IS NULL OR scorer_id = ?4) AND (?5 IS NULL OR entity_id = ?5)
ORDER BY n DESC LIMIT ?7 OFFSET ?6;
