-- +goose Up

-- One row per event; UNIQUE (source, event_id) is what "once" rests on.
-- Times are the database's own. The payload is bytea because JSON may hold
-- what text and jsonb refuse (\u0000), and it must come back byte for byte.
CREATE TABLE received_events (
    id              bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    source          text        NOT NULL,
    event_id        text        NOT NULL,
    event_type      text        NOT NULL,
    status          text        NOT NULL
        CHECK (status IN ('received', 'processing', 'completed', 'failed', 'dead')),
    -- The fencing token: only rises. The retry budget is attempt - budget_from.
    attempt         integer     NOT NULL DEFAULT 0,
    budget_from     integer     NOT NULL DEFAULT 0,
    -- Attempts in a row whose worker died or stalled.
    lost            integer     NOT NULL DEFAULT 0,
    payload         bytea,
    payload_sha256  bytea       NOT NULL CHECK (octet_length(payload_sha256) = 32),
    content_type    text        NOT NULL DEFAULT '',
    headers         jsonb       NOT NULL DEFAULT '{}',
    traceparent     text        NOT NULL DEFAULT '',
    delivery        text        NOT NULL,
    received_at     timestamptz NOT NULL,
    started_at      timestamptz,
    lease_until     timestamptz,
    completed_at    timestamptz,
    next_attempt_at timestamptz,
    last_error      text,
    error_kind      text,
    worker          text,
    -- When the sweeper looks for a lost task, and how often it has: an open
    -- event always has such a time, a completed or dead one has none.
    sweep_at        timestamptz,
    sweeps          integer     NOT NULL DEFAULT 0,
    UNIQUE (source, event_id),
    CHECK (budget_from <= attempt),
    CHECK ((status = 'processing') = (lease_until IS NOT NULL)),
    CHECK ((status = 'completed') = (completed_at IS NOT NULL))
);

CREATE INDEX received_events_sweep ON received_events (sweep_at) WHERE sweep_at IS NOT NULL;
CREATE INDEX received_events_dead ON received_events (id) WHERE status = 'dead';
CREATE INDEX received_events_purge ON received_events (completed_at) WHERE status = 'completed' AND payload IS NOT NULL;

-- One row per attempt that did not succeed.
CREATE TABLE event_attempts (
    source     text        NOT NULL,
    event_id   text        NOT NULL,
    attempt    integer     NOT NULL,
    kind       text        NOT NULL,
    error      text        NOT NULL,
    started_at timestamptz,
    ended_at   timestamptz NOT NULL,
    worker     text        NOT NULL,
    PRIMARY KEY (source, event_id, attempt)
);

-- Other bodies that came under the id of an event. The first one stays.
CREATE TABLE payload_conflicts (
    source         text        NOT NULL,
    event_id       text        NOT NULL,
    payload_sha256 bytea       NOT NULL,
    payload        bytea       NOT NULL,
    content_type   text        NOT NULL,
    delivery       text        NOT NULL,
    received_at    timestamptz NOT NULL,
    PRIMARY KEY (source, event_id, payload_sha256)
);

-- The mark that each source's queue in Redis had when it was last whole. If
-- Redis has another one, it lost its data.
CREATE TABLE queue_epochs (
    source text PRIMARY KEY,
    epoch  text NOT NULL
);

-- What people did, and why.
CREATE TABLE audit_log (
    id      bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    actor   text        NOT NULL,
    action  text        NOT NULL,
    reason  text        NOT NULL,
    details jsonb       NOT NULL
);

-- The effect of the built-in handler. Its own UNIQUE key is a second lock on
-- the same door: no fault of ours can charge twice.
CREATE TABLE payments (
    id         bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    source     text        NOT NULL,
    event_id   text        NOT NULL,
    event_type text        NOT NULL,
    amount     bigint      NOT NULL CHECK (amount >= 0), -- in minor units
    attempt    integer     NOT NULL,                     -- the attempt that wrote it
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (source, event_id)
);

-- +goose Down
DROP TABLE payments, audit_log, queue_epochs, payload_conflicts, event_attempts, received_events;
