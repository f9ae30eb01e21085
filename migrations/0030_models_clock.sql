-- The clocks of the log.

-- The clock by which a model was learned, and the one by which it was begun: `total_ms` of the corrections that its times
-- include.
ALTER TABLE histories ADD COLUMN clock_ms INTEGER NOT NULL DEFAULT 0;
ALTER TABLE histories ADD COLUMN begun_clock_ms INTEGER NOT NULL DEFAULT 0;

-- Models of earlier versions were learned through all corrections.
UPDATE histories SET clock_ms = total_ms, begun_clock_ms = total_ms
FROM (SELECT total_ms FROM clock_corrections ORDER BY id DESC LIMIT 1) WHERE total_ms <> 0;

DROP VIEW readable_histories;
CREATE VIEW readable_histories AS
SELECT s.name AS source, length(h.bytes) AS bytes, length(h.watch) AS watch, length(h.aside) AS aside,
       strftime('%Y-%m-%dT%H:%M:%fZ', h.changed_at / 1000.0, 'unixepoch') AS changed_at,
       length(h.diary) AS diary, length(h.habits) AS habits,
       strftime('%Y-%m-%dT%H:%M:%fZ', h.weighed_at / 1000.0, 'unixepoch') AS weighed_at,
       length(h.rhythm_test) AS rhythm_test,
       strftime('%Y-%m-%dT%H:%M:%fZ', h.rhythm_since / 1000.0, 'unixepoch') AS rhythm_since,
       h.clock_ms / 1000.0 AS clock_s, h.begun_clock_ms / 1000.0 AS begun_clock_s
FROM histories h JOIN sources s ON s.id = h.source_id;

-- Each clock of the log: its probes come after one and end with another, and what is to be added to its times. The first
-- has no beginning. Each ends an hour late: a probe may have begun after the last reading.
CREATE VIEW log_clocks AS
SELECT id, coalesce(lag(last_probe) OVER earlier, 0) AS after_probe, last_probe,
       lag(at) OVER earlier AS from_at, at - by_ms + 3600000 AS until_at,
       (SELECT total_ms FROM clock_corrections ORDER BY id DESC LIMIT 1) - total_ms + by_ms AS shift_ms
FROM clock_corrections WINDOW earlier AS (ORDER BY id)
UNION ALL
SELECT * FROM (SELECT id + 1, last_probe, NULL, at, (SELECT at + 3600000 FROM clock_seen), 0 FROM clock_corrections ORDER BY id DESC LIMIT 1);

CREATE VIEW readable_log_clocks AS
SELECT id, after_probe, last_probe, strftime('%Y-%m-%dT%H:%M:%fZ', from_at / 1000.0, 'unixepoch') AS from_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', until_at / 1000.0, 'unixepoch') AS until_at, shift_ms / 1000.0 AS shift_s
FROM log_clocks;

-- The tables that prove what was allowed, with their times by the clock in force. A row that names no probe is of the last
-- clock that showed its time.
CREATE VIEW corrected_probes AS
SELECT id, source_id, started_at + shift AS started_at, started_at + duration_ms + shift AS ended_at,
       fresh_until + shift AS fresh_until, retry_until + shift AS retry_until, uncharged
FROM (SELECT *, coalesce((SELECT sum(by_ms) FROM clock_corrections WHERE last_probe >= probes.id), 0) AS shift FROM probes);

CREATE VIEW corrected_source_limits AS
SELECT id, source_id,
       at + coalesce((SELECT shift_ms FROM log_clocks WHERE at BETWEEN coalesce(from_at, at) AND coalesce(until_at, at)
                      ORDER BY log_clocks.id DESC LIMIT 1), 0) AS at,
       ended_at + coalesce((SELECT shift_ms FROM log_clocks WHERE ended_at BETWEEN coalesce(from_at, ended_at) AND coalesce(until_at, ended_at)
                      ORDER BY log_clocks.id DESC LIMIT 1), 0) AS ended_at,
       probes, per_ms, min_spacing_ms, site
FROM source_limits;

CREATE VIEW corrected_host_limits AS
SELECT id, host, at + began AS at,
       ended_at + coalesce((SELECT shift_ms FROM log_clocks WHERE ended_at BETWEEN coalesce(from_at, ended_at) AND coalesce(until_at, ended_at)
                      ORDER BY log_clocks.id DESC LIMIT 1), 0) AS ended_at,
       paused_until + began AS paused_until, crawl_delay_ms
FROM (SELECT *, coalesce((SELECT shift_ms FROM log_clocks WHERE at BETWEEN coalesce(from_at, at) AND coalesce(until_at, at)
                      ORDER BY log_clocks.id DESC LIMIT 1), 0) AS began FROM host_limits);

CREATE VIEW corrected_pardons AS
SELECT id, source_id,
       at + coalesce((SELECT shift_ms FROM log_clocks WHERE at BETWEEN coalesce(from_at, at) AND coalesce(until_at, at)
                      ORDER BY log_clocks.id DESC LIMIT 1), 0) AS at
FROM events WHERE kind = 'pardoned';

CREATE VIEW readable_corrected_probes AS
SELECT p.id,
       s.name AS source,
       strftime('%Y-%m-%dT%H:%M:%fZ', p.started_at / 1000.0, 'unixepoch') AS started_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', p.ended_at / 1000.0, 'unixepoch') AS ended_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', p.fresh_until / 1000.0, 'unixepoch') AS fresh_until,
       strftime('%Y-%m-%dT%H:%M:%fZ', p.retry_until / 1000.0, 'unixepoch') AS retry_until,
       p.uncharged
FROM corrected_probes p JOIN sources s ON s.id = p.source_id;

CREATE VIEW readable_corrected_source_limits AS
SELECT l.id,
       s.name AS source,
       strftime('%Y-%m-%dT%H:%M:%fZ', l.at / 1000.0, 'unixepoch') AS at,
       strftime('%Y-%m-%dT%H:%M:%fZ', l.ended_at / 1000.0, 'unixepoch') AS ended_at,
       l.probes,
       l.per_ms,
       l.min_spacing_ms,
       l.site
FROM corrected_source_limits l JOIN sources s ON s.id = l.source_id;

CREATE VIEW readable_corrected_host_limits AS
SELECT h.id,
       h.host,
       strftime('%Y-%m-%dT%H:%M:%fZ', h.at / 1000.0, 'unixepoch') AS at,
       strftime('%Y-%m-%dT%H:%M:%fZ', h.ended_at / 1000.0, 'unixepoch') AS ended_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', h.paused_until / 1000.0, 'unixepoch') AS paused_until,
       h.crawl_delay_ms
FROM corrected_host_limits h;

CREATE VIEW readable_corrected_pardons AS
SELECT e.id,
       s.name AS source,
       strftime('%Y-%m-%dT%H:%M:%fZ', e.at / 1000.0, 'unixepoch') AS at
FROM corrected_pardons e LEFT JOIN sources s ON s.id = e.source_id;

-- Probes up to this one were logged by versions that did not log limits.
INSERT INTO meta (key, value)
SELECT 'limits_after_probe', coalesce(max(id), 0) FROM probes
WHERE started_at < coalesce((SELECT min(at) FROM source_limits), 9223372036854775807);
