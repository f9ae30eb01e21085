-- The evidence behind each source's rhythm, faded: about 700 bytes each.
CREATE TABLE histories (
    source_id INTEGER PRIMARY KEY REFERENCES sources (id),
    bytes     BLOB NOT NULL
) STRICT;

-- How the rate in `rates` was come by.
CREATE TABLE fits (
    source_id  INTEGER PRIMARY KEY REFERENCES sources (id),
    fitted_at  INTEGER NOT NULL,
    origin     TEXT NOT NULL CHECK (origin IN ('individual', 'aggregate', 'blend')),
    cycle      TEXT NOT NULL,              -- what repeats: none, day, work week, week
    time_zone  TEXT NOT NULL,              -- whose week the segments are of
    per_week   REAL NOT NULL,
    dispersion REAL,                       -- 1: keeps its rhythm; more: comes in bursts; less: runs by the clock
    updates    INTEGER NOT NULL,           -- evidence: how many, since when
    since      INTEGER
) STRICT;

CREATE VIEW readable_histories AS
SELECT s.name AS source, length(h.bytes) AS bytes FROM histories h JOIN sources s ON s.id = h.source_id;

CREATE VIEW readable_fits AS
SELECT s.name AS source, strftime('%Y-%m-%dT%H:%M:%fZ', f.fitted_at / 1000.0, 'unixepoch') AS fitted_at,
       f.origin, f.cycle, f.time_zone, f.per_week, f.dispersion, f.updates,
       strftime('%Y-%m-%dT%H:%M:%fZ', f.since / 1000.0, 'unixepoch') AS since
FROM fits f JOIN sources s ON s.id = f.source_id;
