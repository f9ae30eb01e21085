-- The phases of a source's life.
ALTER TABLE sources ADD COLUMN next_probe_policy TEXT;      -- who asked for the next probe
ALTER TABLE sources ADD COLUMN follows TEXT;                -- the policy that `auto` follows
ALTER TABLE sources ADD COLUMN newest_at INTEGER;           -- the latest update known: ages are counted from it
ALTER TABLE sources ADD COLUMN burst_since INTEGER;         -- a burst is on
ALTER TABLE sources ADD COLUMN in_bursts INTEGER NOT NULL DEFAULT 0;  -- of its last updates, how many in a million came in bursts
ALTER TABLE sources ADD COLUMN quiet_since INTEGER;         -- it should have updated and has not: noticed then
ALTER TABLE sources ADD COLUMN reserve_whole_at INTEGER;    -- when what bursts may cost will all be there again

-- What a store from before these were kept says of them.
UPDATE sources SET next_probe_policy = 'plan', follows = 'plan' WHERE next_probe_reason = 'plan';
UPDATE sources SET newest_at = coalesce(
    (SELECT max(occurred_at) FROM updates WHERE updates.source_id = sources.id AND kind <> 'edited'),
    (SELECT max(dated_at) FROM items WHERE items.source_id = sources.id));

ALTER TABLE histories ADD COLUMN watch BLOB;                -- the watch for bursts
ALTER TABLE histories ADD COLUMN aside BLOB;                -- what is to be learned if its rhythm is another since its last burst began
ALTER TABLE histories ADD COLUMN changed_at INTEGER;        -- when its rhythm was found to be another: older rates are void

ALTER TABLE bursts ADD COLUMN for_good INTEGER NOT NULL DEFAULT 0;  -- 1: it outlasted a cycle, and is the rhythm since
CREATE INDEX bursts_open ON bursts (source_id) WHERE ended_at IS NULL;

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
       etag, last_modified, error_streak, last_error, adopted_url, holds
FROM sources;

DROP VIEW readable_bursts;
CREATE VIEW readable_bursts AS
SELECT b.id, s.name AS source,
       strftime('%Y-%m-%dT%H:%M:%fZ', b.began_at / 1000.0, 'unixepoch') AS began_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', b.ended_at / 1000.0, 'unixepoch') AS ended_at,
       b.observed, b.expected, b.for_good
FROM bursts b JOIN sources s ON s.id = b.source_id;

DROP VIEW readable_histories;
CREATE VIEW readable_histories AS
SELECT s.name AS source, length(h.bytes) AS bytes, length(h.watch) AS watch, length(h.aside) AS aside,
       strftime('%Y-%m-%dT%H:%M:%fZ', h.changed_at / 1000.0, 'unixepoch') AS changed_at
FROM histories h JOIN sources s ON s.id = h.source_id;
