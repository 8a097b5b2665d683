-- Runs, who may write to them, and what they wrote. Times are seconds since the epoch; `format` is the version of how
-- a row's JSON is to be read.

CREATE TABLE counters (
    name TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) WITHOUT ROWID;

-- One counter for all scopes: epochs only grow, so a lease that nobody holds can be deleted.
INSERT INTO counters (name, value) VALUES ('epoch', 0), ('finished plain runs', 0);

CREATE TABLE leases (
    scope_kind TEXT NOT NULL,
    scope_id TEXT NOT NULL,
    scope_resource TEXT NOT NULL,
    owner TEXT NOT NULL,
    epoch INTEGER NOT NULL,
    expires_at REAL NOT NULL,
    held INTEGER NOT NULL, -- 0: reserved for its owner by a handover
    PRIMARY KEY (scope_kind, scope_id, scope_resource)
) WITHOUT ROWID;

CREATE TABLE runs (
    n INTEGER PRIMARY KEY, -- the order they were added in
    run_id TEXT NOT NULL UNIQUE,
    format INTEGER NOT NULL,
    agent_id TEXT NOT NULL,
    scope_kind TEXT NOT NULL,
    scope_id TEXT NOT NULL,
    scope_resource TEXT NOT NULL,
    status TEXT NOT NULL,
    durable INTEGER NOT NULL,
    resource_id TEXT,
    thread_id TEXT,
    parent_id TEXT,
    parent_call_id TEXT,
    root_id TEXT,
    loop_version INTEGER NOT NULL,
    reason TEXT,
    error BLOB,
    created_at REAL NOT NULL,
    updated_at REAL NOT NULL,
    pruned INTEGER NOT NULL DEFAULT 0, -- 1: retention dropped its events, but for the last one
    seq INTEGER NOT NULL DEFAULT 0, -- how many records and events it has, kept or not
    events INTEGER NOT NULL DEFAULT 0,
    first_event INTEGER NOT NULL DEFAULT 0
);

CREATE INDEX runs_of_resource ON runs (resource_id, n);
CREATE INDEX runs_of_resource_by_status ON runs (resource_id, status, n);
CREATE INDEX runs_running ON runs (scope_kind, scope_id, scope_resource) WHERE status = 'running';
CREATE INDEX runs_ended ON runs (pruned, updated_at)
    WHERE durable = 1 AND status NOT IN ('running', 'suspended');
CREATE INDEX runs_forgettable ON runs (updated_at, n)
    WHERE durable = 0 AND status NOT IN ('running', 'suspended');

-- The journal and the event log. A row's `place` is runs.n * 2^32 + its place in the run: a run's rows lie together,
-- and a write touches as few pages as can be.

CREATE TABLE records (
    place INTEGER PRIMARY KEY,
    format INTEGER NOT NULL,
    record BLOB NOT NULL
);

-- One row per write: `place` is that of its first event, `chunks` the JSON of `count` chunks, one a line.
CREATE TABLE events (
    place INTEGER PRIMARY KEY,
    format INTEGER NOT NULL,
    count INTEGER NOT NULL,
    chunks BLOB NOT NULL
);

-- The run counts what is added to it, so that a write of events is one statement.

CREATE TRIGGER count_records AFTER INSERT ON records BEGIN
    UPDATE runs SET seq = (NEW.place & 4294967295) + 1 WHERE n = NEW.place >> 32;
END;

CREATE TRIGGER count_events AFTER INSERT ON events BEGIN
    UPDATE runs SET events = (NEW.place & 4294967295) + NEW.count WHERE n = NEW.place >> 32;
END;

CREATE TABLE pending (
    n INTEGER PRIMARY KEY, -- the order they were first stored in
    run INTEGER NOT NULL,
    call_id TEXT NOT NULL,
    format INTEGER NOT NULL,
    closed INTEGER NOT NULL,
    call BLOB NOT NULL,
    UNIQUE (run, call_id)
);

-- Outlive their runs: a later run that asks for the same effect must find it.
CREATE TABLE effects (
    effect_key TEXT PRIMARY KEY,
    format INTEGER NOT NULL,
    run_id TEXT NOT NULL,
    call_id TEXT NOT NULL,
    status TEXT NOT NULL,
    updated_at REAL NOT NULL,
    effect BLOB NOT NULL
);
