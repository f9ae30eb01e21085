-- Changes of rhythm: a lower level, or updates at other hours.
ALTER TABLE histories ADD COLUMN rhythm_test BLOB;       -- the state of the test between probes
ALTER TABLE histories ADD COLUMN rhythm_since INTEGER;   -- start of the present rhythm, if a change was found

DROP VIEW readable_histories;
CREATE VIEW readable_histories AS
SELECT s.name AS source, length(h.bytes) AS bytes, length(h.watch) AS watch, length(h.aside) AS aside,
       strftime('%Y-%m-%dT%H:%M:%fZ', h.changed_at / 1000.0, 'unixepoch') AS changed_at,
       length(h.diary) AS diary, length(h.habits) AS habits,
       strftime('%Y-%m-%dT%H:%M:%fZ', h.weighed_at / 1000.0, 'unixepoch') AS weighed_at,
       length(h.rhythm_test) AS rhythm_test,
       strftime('%Y-%m-%dT%H:%M:%fZ', h.rhythm_since / 1000.0, 'unixepoch') AS rhythm_since
FROM histories h JOIN sources s ON s.id = h.source_id;
