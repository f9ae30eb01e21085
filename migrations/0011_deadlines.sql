-- Sources that may go unseen only for so long, what probes cost, and how late looks came.
ALTER TABLE sources ADD COLUMN look_by_at INTEGER;          -- as of its last look: the next must begin by then; NULL: it stated no max_gap
ALTER TABLE sources ADD COLUMN mean_bytes REAL;             -- bytes of a body lately, in the mean
ALTER TABLE sources ADD COLUMN mean_ms REAL;                -- how long a probe took lately, in the mean
ALTER TABLE probes ADD COLUMN tardy_ms INTEGER;             -- how late it came; 0: in time; NULL: no deadline, or no answer

ALTER TABLE loads ADD COLUMN work REAL NOT NULL DEFAULT 0;            -- what its probes cost; a mean one costs 1
ALTER TABLE loads ADD COLUMN tardy INTEGER NOT NULL DEFAULT 0;        -- looks that came after their deadline
ALTER TABLE loads ADD COLUMN tardy_ms INTEGER NOT NULL DEFAULT 0;     -- how late those were, all together
ALTER TABLE loads ADD COLUMN tardiest_ms INTEGER NOT NULL DEFAULT 0;  -- how late the latest was
ALTER TABLE loads ADD COLUMN overdue INTEGER NOT NULL DEFAULT 0;      -- sources past their deadline at the end

DROP VIEW readable_sources;
CREATE VIEW readable_sources AS
SELECT id, name, url, kind, policy, group_name, state,
       strftime('%Y-%m-%dT%H:%M:%fZ', next_probe_at / 1000.0, 'unixepoch') AS next_probe_at,
       next_probe_reason, next_probe_policy, follows,
       strftime('%Y-%m-%dT%H:%M:%fZ', look_by_at / 1000.0, 'unixepoch') AS look_by_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', last_probe_at / 1000.0, 'unixepoch') AS last_probe_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', last_update_at / 1000.0, 'unixepoch') AS last_update_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', newest_at / 1000.0, 'unixepoch') AS newest_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', burst_since / 1000.0, 'unixepoch') AS burst_since,
       strftime('%Y-%m-%dT%H:%M:%fZ', quiet_since / 1000.0, 'unixepoch') AS quiet_since,
       etag, last_modified, error_streak, last_error, adopted_url, holds, found_per_hour, mean_bytes, mean_ms
FROM sources;

DROP VIEW readable_probes;
CREATE VIEW readable_probes AS
SELECT p.id, s.name AS source,
       strftime('%Y-%m-%dT%H:%M:%fZ', p.due_at / 1000.0, 'unixepoch') AS due_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', p.started_at / 1000.0, 'unixepoch') AS started_at,
       p.duration_ms, p.outcome, p.http_status, p.bytes, p.updates_found, p.policy, p.reason, p.tardy_ms, p.error
FROM probes p JOIN sources s ON s.id = p.source_id;

DROP VIEW readable_loads;
CREATE VIEW readable_loads AS
SELECT strftime('%Y-%m-%dT%H:%M:%fZ', since / 1000.0, 'unixepoch') AS since,
       strftime('%Y-%m-%dT%H:%M:%fZ', until / 1000.0, 'unixepoch') AS until,
       due, sampled, late, late_ms, latest_ms, waiting, undiscovered_hours, work, tardy, tardy_ms, tardiest_ms, overdue
FROM loads;
