-- What the network, and the operator, did to probes.
ALTER TABLE probes ADD COLUMN uncharged INTEGER;  -- 1: a fault of our own prevented its request; no budget counts it
ALTER TABLE probes ADD COLUMN fresh_until INTEGER; -- max-age or Expires, as in force after it
ALTER TABLE probes ADD COLUMN retry_until INTEGER; -- Retry-After, as in force after it
DROP VIEW readable_probes;
CREATE VIEW readable_probes AS
SELECT p.id, s.name AS source,
       strftime('%Y-%m-%dT%H:%M:%fZ', p.due_at / 1000.0, 'unixepoch') AS due_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', p.started_at / 1000.0, 'unixepoch') AS started_at,
       p.duration_ms, p.outcome, p.http_status, p.bytes, p.updates_found, p.policy, p.reason, p.tardy_ms, p.error,
       p.uncharged, strftime('%Y-%m-%dT%H:%M:%fZ', p.fresh_until / 1000.0, 'unixepoch') AS fresh_until,
       strftime('%Y-%m-%dT%H:%M:%fZ', p.retry_until / 1000.0, 'unixepoch') AS retry_until
FROM probes p JOIN sources s ON s.id = p.source_id;

-- An answer is kept while later requests fail.
ALTER TABLE robots ADD COLUMN failed_at INTEGER;                   -- the last request, if it failed
ALTER TABLE robots ADD COLUMN failures INTEGER NOT NULL DEFAULT 0; -- in a row
ALTER TABLE robots ADD COLUMN crawl_delay_ms INTEGER;              -- what the answer asks for
DROP VIEW readable_robots;
CREATE VIEW readable_robots AS
SELECT origin, strftime('%Y-%m-%dT%H:%M:%fZ', fetched_at / 1000.0, 'unixepoch') AS fetched_at, http_status,
       length(body) AS bytes, strftime('%Y-%m-%dT%H:%M:%fZ', failed_at / 1000.0, 'unixepoch') AS failed_at, failures,
       crawl_delay_ms
FROM robots;

-- Limits that the user lifted with `tidewatch pardon`.
CREATE TABLE pardons (
    -- Never given again: the daemon carries out what is above the last one.
    id        INTEGER PRIMARY KEY AUTOINCREMENT,
    source_id INTEGER REFERENCES sources (id),  -- of a source,
    host      TEXT,                             -- or of a host group
    asked_at  INTEGER NOT NULL,
    answer    TEXT,                             -- NULL until it is carried out
    CHECK ((source_id IS NULL) <> (host IS NULL))
) STRICT;
CREATE INDEX pardons_open ON pardons (id) WHERE answer IS NULL;
CREATE VIEW readable_pardons AS
SELECT p.id, s.name AS source, p.host, strftime('%Y-%m-%dT%H:%M:%fZ', p.asked_at / 1000.0, 'unixepoch') AS asked_at,
       p.answer
FROM pardons p LEFT JOIN sources s ON s.id = p.source_id;

-- The configured limits of a source, as they changed, so that the log proves that each probe was allowed.
ALTER TABLE sources ADD COLUMN limits TEXT;  -- the last ones that are logged
CREATE TABLE source_limits (
    id             INTEGER PRIMARY KEY,
    source_id      INTEGER NOT NULL REFERENCES sources (id),
    at             INTEGER NOT NULL,
    ended_at       INTEGER,                  -- NULL: in force
    probes         INTEGER NOT NULL,
    per_ms         INTEGER NOT NULL,
    min_spacing_ms INTEGER NOT NULL,
    site           TEXT NOT NULL             -- the host group of its configured URL
) STRICT;
CREATE INDEX source_limits_by_source ON source_limits (source_id, at);
CREATE INDEX source_limits_ended ON source_limits (ended_at) WHERE ended_at IS NOT NULL;
CREATE VIEW readable_source_limits AS
SELECT l.id, s.name AS source, strftime('%Y-%m-%dT%H:%M:%fZ', l.at / 1000.0, 'unixepoch') AS at,
       strftime('%Y-%m-%dT%H:%M:%fZ', l.ended_at / 1000.0, 'unixepoch') AS ended_at, l.probes, l.per_ms,
       l.min_spacing_ms, l.site
FROM source_limits l JOIN sources s ON s.id = l.source_id;

-- The limits that a host group asked for, as they changed.
CREATE TABLE host_limits (
    id             INTEGER PRIMARY KEY,
    host           TEXT NOT NULL,
    at             INTEGER NOT NULL,
    ended_at       INTEGER,                  -- NULL: in force
    paused_until   INTEGER,
    crawl_delay_ms INTEGER NOT NULL
) STRICT;
CREATE INDEX host_limits_by_host ON host_limits (host, at);
CREATE INDEX host_limits_ended ON host_limits (ended_at) WHERE ended_at IS NOT NULL;
CREATE VIEW readable_host_limits AS
SELECT id, host, strftime('%Y-%m-%dT%H:%M:%fZ', at / 1000.0, 'unixepoch') AS at,
       strftime('%Y-%m-%dT%H:%M:%fZ', ended_at / 1000.0, 'unixepoch') AS ended_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', paused_until / 1000.0, 'unixepoch') AS paused_until, crawl_delay_ms
FROM host_limits;
