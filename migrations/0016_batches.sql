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
