-- The times of a source's last updates, and what is believed of its habits by them.
ALTER TABLE histories ADD COLUMN diary BLOB;                -- its last updates, up to 256 of them, 12 bytes each; NULL: none
ALTER TABLE histories ADD COLUMN habits BLOB;               -- how much each way of foretelling them is believed; NULL: not weighed
ALTER TABLE histories ADD COLUMN weighed_at INTEGER;        -- when that was weighed; NULL: the diary is another since

DROP VIEW readable_histories;
CREATE VIEW readable_histories AS
SELECT s.name AS source, length(h.bytes) AS bytes, length(h.watch) AS watch, length(h.aside) AS aside,
       strftime('%Y-%m-%dT%H:%M:%fZ', h.changed_at / 1000.0, 'unixepoch') AS changed_at,
       length(h.diary) AS diary, length(h.habits) AS habits,
       strftime('%Y-%m-%dT%H:%M:%fZ', h.weighed_at / 1000.0, 'unixepoch') AS weighed_at
FROM histories h JOIN sources s ON s.id = h.source_id;
