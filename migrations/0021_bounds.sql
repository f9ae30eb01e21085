-- Bounds on what is kept of a source, whatever its documents hold.
ALTER TABLE sources ADD COLUMN cut_at INTEGER;           -- items that were read of its last document, if that has more
ALTER TABLE sources ADD COLUMN known_items INTEGER;      -- its rows of `items`; NULL: not counted
ALTER TABLE sources ADD COLUMN items_forgotten INTEGER;  -- when rows of `items` were last deleted: `updates` shows older ones
