-- Sources whose probes were in progress when the daemon died, until one of their probes ends.
CREATE TABLE crash_suspects (
    source_id INTEGER PRIMARY KEY REFERENCES sources (id),
    deaths    INTEGER NOT NULL,  -- how often the daemon died in a row while its probe was in progress
    evidence  TEXT NOT NULL CHECK (evidence IN ('beside', 'alone', 'backed_off'))
    -- 'beside': other probes were in progress too; 'alone': none was; 'backed_off': none was, and it was backed off
) STRICT;

CREATE VIEW readable_crash_suspects AS
SELECT s.name AS source, c.deaths, c.evidence
FROM crash_suspects c JOIN sources s ON s.id = c.source_id;

-- One row while a daemon runs that has not been asked to stop. At a start it says that the daemon before died.
CREATE TABLE running (
    id   INTEGER PRIMARY KEY CHECK (id = 1),
    boot TEXT  -- the name of the boot of the machine
) STRICT;

CREATE VIEW readable_running AS
SELECT boot FROM running;
