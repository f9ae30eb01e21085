-- The clock may be set. What is logged keeps the time of the clock that was in force; a correction says where that ends.
CREATE TABLE clock_corrections (
    id          INTEGER PRIMARY KEY,
    at          INTEGER NOT NULL,  -- by the new clock
    by_ms       INTEGER NOT NULL,  -- the new clock minus the old one
    total_ms    INTEGER NOT NULL,  -- the sum of this and all corrections before
    last_probe  INTEGER NOT NULL,  -- probes up to this one are logged by the old clock
    found       TEXT NOT NULL      -- running: while the daemon ran; same_boot, other_boot: at a start
                CHECK (found IN ('running', 'same_boot', 'other_boot'))
) STRICT;

CREATE VIEW readable_clock_corrections AS
SELECT id, strftime('%Y-%m-%dT%H:%M:%fZ', at / 1000.0, 'unixepoch') AS at, by_ms / 1000.0 AS by_s,
       total_ms / 1000.0 AS total_s, last_probe, found
FROM clock_corrections;

-- What the clock showed last.
CREATE TABLE clock_seen (
    id         INTEGER PRIMARY KEY CHECK (id = 1),
    at         INTEGER NOT NULL,
    booted_at  INTEGER NOT NULL,  -- when the machine booted, by this clock
    boot       TEXT               -- the name of that boot
) STRICT;

CREATE VIEW readable_clock_seen AS
SELECT strftime('%Y-%m-%dT%H:%M:%fZ', at / 1000.0, 'unixepoch') AS at,
       strftime('%Y-%m-%dT%H:%M:%fZ', booted_at / 1000.0, 'unixepoch') AS booted_at, boot
FROM clock_seen;

-- `total_ms` of the corrections that a row's times include.
ALTER TABLE sources ADD COLUMN clock_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE robots ADD COLUMN clock_ms INTEGER NOT NULL DEFAULT 0;
