-- The items of a source's last document, in the row that its next changed document reads and writes in any case.
DROP INDEX items_present;
ALTER TABLE histories ADD COLUMN last_items BLOB;  -- key hash and fingerprint of each, 16 bytes; NULL: see `items`
