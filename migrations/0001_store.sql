-- Times are Unix milliseconds, UTC. Every table has a readable_… view with ISO times and names.

CREATE TABLE sources (
    id                INTEGER PRIMARY KEY,
    name              TEXT NOT NULL UNIQUE,
    url               TEXT NOT NULL,
    kind              TEXT NOT NULL,
    policy            TEXT NOT NULL,
    group_name        TEXT,
    state             TEXT NOT NULL DEFAULT 'learning'
                      CHECK (state IN ('learning', 'planned', 'burst', 'backoff', 'resting', 'removed')),
    next_probe_at     INTEGER,              -- NULL: not until someone says so
    next_probe_reason TEXT,
    last_probe_at     INTEGER,
    last_look_at      INTEGER,              -- the last probe that saw the document or that it had not changed
    last_update_at    INTEGER,
    etag              ANY,                  -- byte for byte: TEXT, or BLOB when it is not UTF-8
    last_modified     ANY,
    validators_url    TEXT,                 -- the URL that gave them; they are sent to no other
    error_streak      INTEGER NOT NULL DEFAULT 0,
    last_error        TEXT,
    known_updates     INTEGER NOT NULL DEFAULT 0,
    fresh_until       INTEGER,              -- max-age, Expires
    retry_until       INTEGER,              -- Retry-After and its kin
    backoff_until     INTEGER,
    ttl_ms            INTEGER,              -- what the feed asks
    skip_hours        INTEGER NOT NULL DEFAULT 0,
    skip_days         INTEGER NOT NULL DEFAULT 0,
    update_period_ms  INTEGER,
    moving_to         TEXT,                 -- proof so far of a permanent redirect
    moving_times      INTEGER,
    moving_since      INTEGER,
    adopted_url       TEXT,                 -- the address adopted after such proof
    moved             INTEGER NOT NULL DEFAULT 0,  -- 1: the address changed since the last look
    page_fingerprint  INTEGER,
    page_text         TEXT,                 -- what a page is compared with
    added_at          INTEGER NOT NULL
) STRICT;

CREATE TABLE probes (
    id            INTEGER PRIMARY KEY,
    source_id     INTEGER NOT NULL REFERENCES sources (id),
    due_at        INTEGER NOT NULL,
    started_at    INTEGER NOT NULL,
    duration_ms   INTEGER NOT NULL,
    outcome       TEXT NOT NULL CHECK (outcome IN ('updated', 'unchanged', 'not_modified', 'failed')),
    http_status   INTEGER,
    bytes         INTEGER NOT NULL DEFAULT 0,
    updates_found INTEGER NOT NULL DEFAULT 0,
    policy        TEXT NOT NULL,
    reason        TEXT NOT NULL,
    error         TEXT
) STRICT;
CREATE INDEX probes_by_time ON probes (started_at);
CREATE INDEX probes_by_source ON probes (source_id, started_at);

-- A probe that has been sent and not been heard of. Written before the request goes out, so that
-- the budget counts it even when we are killed meanwhile.
CREATE TABLE flights (
    source_id  INTEGER PRIMARY KEY REFERENCES sources (id),
    due_at     INTEGER NOT NULL,
    started_at INTEGER NOT NULL,
    policy     TEXT NOT NULL,
    reason     TEXT NOT NULL
) STRICT;

CREATE TABLE updates (
    id             INTEGER PRIMARY KEY,
    source_id      INTEGER NOT NULL REFERENCES sources (id),
    probe_id       INTEGER REFERENCES probes (id) ON DELETE SET NULL,
    detected_at    INTEGER NOT NULL,
    occurred_at    INTEGER NOT NULL,        -- exact: the item's own date; else the middle of the interval
    occurred_after INTEGER,                 -- not exact: the interval is from here to detected_at
    occurred_exact INTEGER NOT NULL CHECK (occurred_exact IN (0, 1)),
    kind           TEXT NOT NULL CHECK (kind IN ('new', 'edited', 'changed')),
    key            TEXT NOT NULL,
    title          TEXT,
    link           TEXT
) STRICT;
CREATE INDEX updates_by_source ON updates (source_id, detected_at);
CREATE INDEX updates_by_time ON updates (detected_at);
CREATE INDEX updates_by_probe ON updates (probe_id);
-- An item is new once, whatever happens.
CREATE UNIQUE INDEX updates_new_once ON updates (source_id, key) WHERE kind = 'new';

-- Items known, those at first contact included: what tells new from seen, and history for learning.
CREATE TABLE items (
    source_id     INTEGER NOT NULL REFERENCES sources (id),
    key_hash      INTEGER NOT NULL,
    fingerprint   INTEGER NOT NULL,
    dated_at      INTEGER,
    first_seen_at INTEGER NOT NULL,
    last_seen_at  INTEGER NOT NULL,
    gone_at       INTEGER,                  -- taken down by the publisher
    PRIMARY KEY (source_id, key_hash)
) STRICT, WITHOUT ROWID;

CREATE TABLE rates (
    source_id INTEGER NOT NULL REFERENCES sources (id),
    fitted_at INTEGER NOT NULL,
    origin    TEXT NOT NULL CHECK (origin IN ('individual', 'aggregate', 'blend')),
    starts_s  INTEGER NOT NULL,
    ends_s    INTEGER NOT NULL,
    per_hour  REAL NOT NULL,
    PRIMARY KEY (source_id, starts_s)
) STRICT, WITHOUT ROWID;

CREATE TABLE plans (
    id            INTEGER PRIMARY KEY,
    source_id     INTEGER NOT NULL REFERENCES sources (id),
    made_at       INTEGER NOT NULL,
    starts_at     INTEGER NOT NULL,
    ends_at       INTEGER NOT NULL,
    probes        INTEGER NOT NULL,
    expected_cost REAL NOT NULL,
    lower_bound   REAL NOT NULL,
    method        TEXT NOT NULL
) STRICT;
CREATE INDEX plans_by_source ON plans (source_id, made_at);

CREATE TABLE plan_probes (
    plan_id INTEGER NOT NULL REFERENCES plans (id) ON DELETE CASCADE,
    at      INTEGER NOT NULL,
    PRIMARY KEY (plan_id, at)
) STRICT, WITHOUT ROWID;

CREATE TABLE bursts (
    id        INTEGER PRIMARY KEY,
    source_id INTEGER NOT NULL REFERENCES sources (id),
    began_at  INTEGER NOT NULL,
    ended_at  INTEGER,
    observed  INTEGER NOT NULL,
    expected  REAL NOT NULL
) STRICT;
CREATE INDEX bursts_by_source ON bursts (source_id, began_at);

CREATE TABLE gaps (
    id        INTEGER PRIMARY KEY,
    source_id INTEGER NOT NULL REFERENCES sources (id),
    probe_id  INTEGER REFERENCES probes (id) ON DELETE SET NULL,
    at        INTEGER NOT NULL
) STRICT;
CREATE INDEX gaps_by_source ON gaps (source_id, at);
CREATE INDEX gaps_by_probe ON gaps (probe_id);

CREATE TABLE events (
    id        INTEGER PRIMARY KEY,
    at        INTEGER NOT NULL,
    kind      TEXT NOT NULL,
    source_id INTEGER REFERENCES sources (id),
    detail    TEXT
) STRICT;
CREATE INDEX events_by_time ON events (at);

-- What host groups asked of us.
CREATE TABLE hosts (
    host           TEXT PRIMARY KEY,
    public         INTEGER NOT NULL,
    paused_until   INTEGER,
    crawl_delay_ms INTEGER NOT NULL DEFAULT 0
) STRICT, WITHOUT ROWID;

CREATE TABLE robots (
    origin      TEXT PRIMARY KEY,
    fetched_at  INTEGER NOT NULL,
    http_status INTEGER NOT NULL,           -- 0: no answer
    body        BLOB NOT NULL
) STRICT, WITHOUT ROWID;

-- Probes asked for by hand while the daemon runs, and its answers.
CREATE TABLE requests (
    id        INTEGER PRIMARY KEY,
    source_id INTEGER NOT NULL REFERENCES sources (id),
    asked_at  INTEGER NOT NULL,
    answer    TEXT                          -- NULL until the daemon has looked at it
) STRICT;

CREATE VIEW readable_sources AS
SELECT id, name, url, kind, policy, group_name, state,
       strftime('%Y-%m-%dT%H:%M:%fZ', next_probe_at / 1000.0, 'unixepoch') AS next_probe_at,
       next_probe_reason,
       strftime('%Y-%m-%dT%H:%M:%fZ', last_probe_at / 1000.0, 'unixepoch') AS last_probe_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', last_update_at / 1000.0, 'unixepoch') AS last_update_at,
       etag, last_modified, error_streak, last_error, adopted_url
FROM sources;

CREATE VIEW readable_probes AS
SELECT p.id, s.name AS source,
       strftime('%Y-%m-%dT%H:%M:%fZ', p.due_at / 1000.0, 'unixepoch') AS due_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', p.started_at / 1000.0, 'unixepoch') AS started_at,
       p.duration_ms, p.outcome, p.http_status, p.bytes, p.updates_found, p.policy, p.reason, p.error
FROM probes p JOIN sources s ON s.id = p.source_id;

CREATE VIEW readable_flights AS
SELECT s.name AS source,
       strftime('%Y-%m-%dT%H:%M:%fZ', f.due_at / 1000.0, 'unixepoch') AS due_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', f.started_at / 1000.0, 'unixepoch') AS started_at,
       f.policy, f.reason
FROM flights f JOIN sources s ON s.id = f.source_id;

CREATE VIEW readable_updates AS
SELECT u.id, s.name AS source, u.probe_id,
       strftime('%Y-%m-%dT%H:%M:%fZ', u.detected_at / 1000.0, 'unixepoch') AS detected_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', u.occurred_at / 1000.0, 'unixepoch') AS occurred_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', u.occurred_after / 1000.0, 'unixepoch') AS occurred_after,
       u.occurred_exact, u.kind, u.key, u.title, u.link
FROM updates u JOIN sources s ON s.id = u.source_id;

CREATE VIEW readable_items AS
SELECT s.name AS source, i.key_hash, i.fingerprint,
       strftime('%Y-%m-%dT%H:%M:%fZ', i.dated_at / 1000.0, 'unixepoch') AS dated_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', i.first_seen_at / 1000.0, 'unixepoch') AS first_seen_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', i.last_seen_at / 1000.0, 'unixepoch') AS last_seen_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', i.gone_at / 1000.0, 'unixepoch') AS gone_at
FROM items i JOIN sources s ON s.id = i.source_id;

CREATE VIEW readable_rates AS
SELECT s.name AS source,
       strftime('%Y-%m-%dT%H:%M:%fZ', r.fitted_at / 1000.0, 'unixepoch') AS fitted_at,
       r.origin, r.starts_s, r.ends_s, r.per_hour
FROM rates r JOIN sources s ON s.id = r.source_id;

CREATE VIEW readable_plans AS
SELECT p.id, s.name AS source,
       strftime('%Y-%m-%dT%H:%M:%fZ', p.made_at / 1000.0, 'unixepoch') AS made_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', p.starts_at / 1000.0, 'unixepoch') AS starts_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', p.ends_at / 1000.0, 'unixepoch') AS ends_at,
       p.probes, p.expected_cost, p.lower_bound, p.method
FROM plans p JOIN sources s ON s.id = p.source_id;

CREATE VIEW readable_plan_probes AS
SELECT pp.plan_id, s.name AS source, strftime('%Y-%m-%dT%H:%M:%fZ', pp.at / 1000.0, 'unixepoch') AS at
FROM plan_probes pp JOIN plans p ON p.id = pp.plan_id JOIN sources s ON s.id = p.source_id;

CREATE VIEW readable_bursts AS
SELECT b.id, s.name AS source,
       strftime('%Y-%m-%dT%H:%M:%fZ', b.began_at / 1000.0, 'unixepoch') AS began_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', b.ended_at / 1000.0, 'unixepoch') AS ended_at,
       b.observed, b.expected
FROM bursts b JOIN sources s ON s.id = b.source_id;

CREATE VIEW readable_gaps AS
SELECT g.id, s.name AS source, g.probe_id, strftime('%Y-%m-%dT%H:%M:%fZ', g.at / 1000.0, 'unixepoch') AS at
FROM gaps g JOIN sources s ON s.id = g.source_id;

CREATE VIEW readable_events AS
SELECT e.id, strftime('%Y-%m-%dT%H:%M:%fZ', e.at / 1000.0, 'unixepoch') AS at, e.kind, s.name AS source, e.detail
FROM events e LEFT JOIN sources s ON s.id = e.source_id;

CREATE VIEW readable_hosts AS
SELECT host, public, strftime('%Y-%m-%dT%H:%M:%fZ', paused_until / 1000.0, 'unixepoch') AS paused_until,
       crawl_delay_ms
FROM hosts;

CREATE VIEW readable_robots AS
SELECT origin, strftime('%Y-%m-%dT%H:%M:%fZ', fetched_at / 1000.0, 'unixepoch') AS fetched_at, http_status,
       length(body) AS bytes
FROM robots;

CREATE VIEW readable_requests AS
SELECT r.id, s.name AS source, strftime('%Y-%m-%dT%H:%M:%fZ', r.asked_at / 1000.0, 'unixepoch') AS asked_at, r.answer
FROM requests r JOIN sources s ON s.id = r.source_id;

-- Drawn once, so that no two installations jitter alike.
CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO meta (key, value) VALUES ('seed', random());

CREATE VIEW readable_meta AS SELECT key, value FROM meta;
