-- Sources whose probes were in progress when the daemon died, until one of their probes ends.
CREATE TABLE crash_suspects (
    source_id  INTEGER PRIMARY KEY REFERENCES sources (id),
    deaths     INTEGER NOT NULL,  -- how often the daemon died while its probe was in progress
    started_at INTEGER NOT NULL,  -- the start of the last of these probes
    alone      INTEGER NOT NULL   -- 1: no other probe was in progress at the last death, which has had no consequence yet
) STRICT;

CREATE VIEW readable_crash_suspects AS
SELECT s.name AS source, c.deaths,
       strftime('%Y-%m-%dT%H:%M:%fZ', c.started_at / 1000.0, 'unixepoch') AS started_at, c.alone
FROM crash_suspects c JOIN sources s ON s.id = c.source_id;
