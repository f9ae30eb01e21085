-- What a probe is expected to find, stored with its start.
ALTER TABLE flights ADD COLUMN expected REAL;    -- updates that the answer will show; NULL: no well-founded rate
ALTER TABLE flights ADD COLUMN dispersion REAL;  -- variance of that number over its mean
ALTER TABLE flights ADD COLUMN overflow REAL;    -- probability that all items of the last answer have left the feed

DROP VIEW readable_flights;
CREATE VIEW readable_flights AS
SELECT s.name AS source,
       strftime('%Y-%m-%dT%H:%M:%fZ', f.due_at / 1000.0, 'unixepoch') AS due_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', f.started_at / 1000.0, 'unixepoch') AS started_at,
       f.policy, f.reason, f.expected, f.dispersion, f.overflow
FROM flights f JOIN sources s ON s.id = f.source_id;

-- What was stated on the probes of a source and a day before their answers, and what came of it. Only answered
-- probes with an expectation count.
CREATE TABLE predictions (
    day              INTEGER NOT NULL,  -- its start, UTC
    source_id        INTEGER NOT NULL REFERENCES sources (id),
    probes           INTEGER NOT NULL,
    expected         REAL NOT NULL,     -- updates that the probes were expected to find ...
    variance         REAL NOT NULL,     -- ... the variance of that number ...
    found            INTEGER NOT NULL,  -- ... and how many they found, without edits
    overflow         REAL NOT NULL,     -- the sum of the probabilities of an overflow ...
    overflowed       INTEGER NOT NULL,  -- ... and how often no item of the answer before was left
    alarms_stated    REAL NOT NULL,     -- [burst] false_alarms times the updates found: bursts, and silences, that may be called falsely
    bursts           INTEGER NOT NULL,  -- bursts that were called
    quiet            INTEGER NOT NULL,  -- silences that were called ...
    quiet_ended      INTEGER NOT NULL,  -- ... and those that an update ended
    rule_updates     INTEGER NOT NULL,  -- updates that rules waited for ...
    rule_confidence  REAL NOT NULL,     -- ... the sum of the confidences of these rules ...
    rule_in_time     INTEGER NOT NULL,  -- ... and how many of the updates were found in time
    PRIMARY KEY (day, source_id)
) STRICT, WITHOUT ROWID;

CREATE VIEW readable_predictions AS
SELECT date(p.day / 1000, 'unixepoch') AS day, s.name AS source, p.probes, p.expected, p.variance, p.found,
       p.overflow, p.overflowed, p.alarms_stated, p.bursts, p.quiet, p.quiet_ended,
       p.rule_updates, p.rule_confidence, p.rule_in_time
FROM predictions p JOIN sources s ON s.id = p.source_id;
