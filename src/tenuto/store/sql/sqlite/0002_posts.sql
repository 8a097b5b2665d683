-- What anyone may write: posts to a queue, and rows that are replaced by version.

CREATE TABLE posts (
    queue_kind TEXT NOT NULL, -- 'run', or 'inbox of run' and 'inbox of thread' for scopes
    queue_id TEXT NOT NULL,
    queue_resource TEXT NOT NULL,
    seq INTEGER NOT NULL,
    post_key TEXT NOT NULL,
    format INTEGER NOT NULL,
    posted_at REAL NOT NULL,
    item BLOB NOT NULL,
    UNIQUE (queue_kind, queue_id, queue_resource, seq),
    UNIQUE (queue_kind, queue_id, queue_resource, post_key)
);

CREATE TABLE versioned (
    kind TEXT NOT NULL,
    row_key TEXT NOT NULL,
    version INTEGER NOT NULL,
    format INTEGER NOT NULL,
    updated_at REAL NOT NULL,
    value BLOB NOT NULL,
    UNIQUE (kind, row_key)
);
