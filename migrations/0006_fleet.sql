-- What probes say of a source's rate, and what the fleet did minute by minute.
ALTER TABLE sources ADD COLUMN estimate TEXT;               -- what is believed of its rate by what its probes found
ALTER TABLE sources ADD COLUMN found_per_hour REAL;         -- the rate that follows from it, updates per hour

CREATE TABLE loads (
    since              INTEGER PRIMARY KEY,
    until              INTEGER NOT NULL,
    due                INTEGER NOT NULL,  -- probes that were due
    sampled            INTEGER NOT NULL,  -- probes that took slots to spare
    late               INTEGER NOT NULL,  -- of all of them, how many waited for a slot for longer than a step
    late_ms            INTEGER NOT NULL,  -- how long those waited, all together
    latest_ms          INTEGER NOT NULL,  -- how long the longest of them did
    waiting            INTEGER NOT NULL,  -- how many waited for a slot at the end
    undiscovered_hours REAL NOT NULL      -- updates expected to have lain undiscovered, times hours, times weight
) STRICT;

CREATE VIEW readable_loads AS
SELECT strftime('%Y-%m-%dT%H:%M:%fZ', since / 1000.0, 'unixepoch') AS since,
       strftime('%Y-%m-%dT%H:%M:%fZ', until / 1000.0, 'unixepoch') AS until,
       due, sampled, late, late_ms, latest_ms, waiting, undiscovered_hours
FROM loads;

DROP VIEW readable_sources;
CREATE VIEW readable_sources AS
SELECT id, name, url, kind, policy, group_name, state,
       strftime('%Y-%m-%dT%H:%M:%fZ', next_probe_at / 1000.0, 'unixepoch') AS next_probe_at,
       next_probe_reason, next_probe_policy, follows,
       strftime('%Y-%m-%dT%H:%M:%fZ', last_probe_at / 1000.0, 'unixepoch') AS last_probe_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', last_update_at / 1000.0, 'unixepoch') AS last_update_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', newest_at / 1000.0, 'unixepoch') AS newest_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', burst_since / 1000.0, 'unixepoch') AS burst_since,
       strftime('%Y-%m-%dT%H:%M:%fZ', quiet_since / 1000.0, 'unixepoch') AS quiet_since,
       etag, last_modified, error_streak, last_error, adopted_url, holds, found_per_hour
FROM sources;

-- Who is followed while nothing is known has its own name now.
UPDATE sources SET follows = 'adaptive' WHERE follows = 'uniform' AND policy = 'auto';
UPDATE sources SET next_probe_policy = 'adaptive' WHERE next_probe_policy = 'uniform' AND policy IN ('auto', 'adaptive');
