-- How many items a feed holds: more than so many between two probes, and some are lost.
ALTER TABLE sources ADD COLUMN holds INTEGER;

ALTER TABLE plans ADD COLUMN price REAL NOT NULL DEFAULT 0;  -- about what one probe more would save
ALTER TABLE plans ADD COLUMN overflow REAL;                  -- the largest chance of more items between two probes than the feed holds

-- The latest plan of a source is the one with the highest number, whatever the clock was set to.
DROP INDEX plans_by_source;
CREATE INDEX plans_by_source ON plans (source_id);
CREATE INDEX plans_by_time ON plans (made_at);

DROP VIEW readable_sources;
CREATE VIEW readable_sources AS
SELECT id, name, url, kind, policy, group_name, state,
       strftime('%Y-%m-%dT%H:%M:%fZ', next_probe_at / 1000.0, 'unixepoch') AS next_probe_at,
       next_probe_reason,
       strftime('%Y-%m-%dT%H:%M:%fZ', last_probe_at / 1000.0, 'unixepoch') AS last_probe_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', last_update_at / 1000.0, 'unixepoch') AS last_update_at,
       etag, last_modified, error_streak, last_error, adopted_url, holds
FROM sources;

DROP VIEW readable_plans;
CREATE VIEW readable_plans AS
SELECT p.id, s.name AS source,
       strftime('%Y-%m-%dT%H:%M:%fZ', p.made_at / 1000.0, 'unixepoch') AS made_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', p.starts_at / 1000.0, 'unixepoch') AS starts_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', p.ends_at / 1000.0, 'unixepoch') AS ends_at,
       p.probes, p.expected_cost, p.lower_bound, p.price, p.overflow, p.method
FROM plans p JOIN sources s ON s.id = p.source_id;
