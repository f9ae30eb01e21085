-- The items of a source's last document, whatever left it before.
CREATE INDEX items_present ON items (source_id, left_at, fingerprint) WHERE left_at IS NULL;
