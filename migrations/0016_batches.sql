-- What a probe needs before it is sent is in its source's row; texts of pages are apart from it.
ALTER TABLE sources ADD COLUMN body_hash INTEGER;      -- hash of the last body that was read, before decoding
ALTER TABLE sources ADD COLUMN learned_until INTEGER;  -- the model has learned up to here; NULL: up to the last answer
ALTER TABLE sources ADD COLUMN review_at INTEGER;      -- until then, an answer without updates teaches nothing new; NULL: no time

CREATE TABLE pages (
    source_id   INTEGER PRIMARY KEY REFERENCES sources (id),
    fingerprint INTEGER NOT NULL,
    text        TEXT NOT NULL              -- what a page is compared with
) STRICT;

INSERT INTO pages (source_id, fingerprint, text)
SELECT id, page_fingerprint, coalesce(page_text, '') FROM sources WHERE page_fingerprint IS NOT NULL;
ALTER TABLE sources DROP COLUMN page_fingerprint;
ALTER TABLE sources DROP COLUMN page_text;

CREATE VIEW readable_pages AS
SELECT s.name AS source, p.text FROM pages p JOIN sources s ON s.id = p.source_id;

UPDATE sources SET learned_until = last_look_at;

-- Items of the last document have no `left_at`, so that a document changes only the rows of items that came, changed
-- or left.
ALTER TABLE items ADD COLUMN left_at INTEGER;          -- when it was found to have left the document; NULL: it is there
UPDATE items SET left_at = last_seen_at
FROM (SELECT source_id AS source, max(last_seen_at) AS latest FROM items GROUP BY source_id)
WHERE source = items.source_id AND last_seen_at < latest;
CREATE INDEX items_left ON items (left_at) WHERE left_at IS NOT NULL;

DROP VIEW readable_items;
CREATE VIEW readable_items AS
SELECT s.name AS source, i.key_hash, i.fingerprint,
       strftime('%Y-%m-%dT%H:%M:%fZ', i.dated_at / 1000.0, 'unixepoch') AS dated_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', i.first_seen_at / 1000.0, 'unixepoch') AS first_seen_at,
       strftime('%Y-%m-%dT%H:%M:%fZ',
                iif(i.left_at IS NULL, max(i.last_seen_at, coalesce(s.last_look_at, 0)), i.last_seen_at) / 1000.0,
                'unixepoch') AS last_seen_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', i.left_at / 1000.0, 'unixepoch') AS left_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', i.gone_at / 1000.0, 'unixepoch') AS gone_at
FROM items i JOIN sources s ON s.id = i.source_id;
