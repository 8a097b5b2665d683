-- Conversations, vectors that stand for parts of their messages, scores; and child runs, which go with their root.

CREATE TABLE threads (
    n INTEGER PRIMARY KEY, -- the order they were made in
    thread_id TEXT NOT NULL UNIQUE,
    format INTEGER NOT NULL,
    resource TEXT NOT NULL,
    title TEXT,
    version INTEGER NOT NULL, -- of title and metadata
    messages INTEGER NOT NULL DEFAULT 0, -- the seq of the next one
    root_kind TEXT, -- the scope it is written in; NULL: its own
    root_id TEXT,
    root_resource TEXT,
    created_at REAL NOT NULL,
    updated_at REAL NOT NULL,
    metadata BLOB NOT NULL
);

CREATE INDEX threads_of_resource ON threads (resource, n);
CREATE INDEX threads_of_root ON threads (root_kind, root_id, root_resource) WHERE root_kind IS NOT NULL;

-- A row's `place` is threads.n * 2^32 + its seq: the messages of a thread lie together, in order.
CREATE TABLE messages (
    place INTEGER PRIMARY KEY,
    message_id TEXT NOT NULL,
    format INTEGER NOT NULL,
    message BLOB NOT NULL
);

CREATE INDEX messages_by_id ON messages (message_id, place);

CREATE TABLE vectors (
    place INTEGER PRIMARY KEY, -- the order they were stored in
    resource TEXT NOT NULL,
    space TEXT NOT NULL,
    message INTEGER NOT NULL, -- messages.place
    message_id TEXT NOT NULL,
    part INTEGER NOT NULL,
    format INTEGER NOT NULL,
    vector BLOB NOT NULL, -- float32, little-endian
    UNIQUE (message, space, part)
);

CREATE INDEX vectors_of_resource ON vectors (resource, space, place);

CREATE TABLE scores (
    n INTEGER PRIMARY KEY, -- the order they were stored in
    score_id TEXT NOT NULL UNIQUE,
    format INTEGER NOT NULL,
    resource_id TEXT,
    run_id TEXT NOT NULL,
    scorer_id TEXT NOT NULL,
    entity_id TEXT NOT NULL,
    created_at REAL NOT NULL,
    score BLOB NOT NULL
);

CREATE INDEX scores_of_resource ON scores (resource_id, n);
CREATE INDEX scores_of_run ON scores (run_id, n);

CREATE INDEX runs_children ON runs (parent_id, n) WHERE parent_id IS NOT NULL;
CREATE INDEX runs_open_in_thread ON runs (thread_id) WHERE status IN ('running', 'suspended');

-- Retention goes by roots: a child goes with its own.

DROP INDEX runs_ended;
CREATE INDEX runs_ended ON runs (pruned, updated_at)
    WHERE durable = 1 AND status NOT IN ('running', 'suspended') AND parent_id IS NULL;

DROP INDEX runs_forgettable;
CREATE INDEX runs_forgettable ON runs (updated_at, n)
    WHERE durable = 0 AND status NOT IN ('running', 'suspended') AND parent_id IS NULL;
