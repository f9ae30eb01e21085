-- A document that our own limits refused, so that it is not sent again until it or the limits change. Its validators are
-- stored like those of one that was read.
ALTER TABLE sources ADD COLUMN unread TEXT;         -- why the last document was not read; NULL: it was
ALTER TABLE sources ADD COLUMN unread_within TEXT;  -- the limits that refused it
