-- Bounds on what is kept of a source, whatever its documents hold.
ALTER TABLE sources ADD COLUMN cut_at INTEGER;           -- items that were read of its last document, if that has more
ALTER TABLE sources ADD COLUMN known_items INTEGER;      -- its rows of `items`; NULL: not counted
ALTER TABLE sources ADD COLUMN items_forgotten INTEGER;  -- when rows of `items` were last deleted: `updates` shows older ones
CREATE INDEX sources_removed ON sources (last_probe_at) WHERE state = 'removed' AND known_items IS NOT 0;
CREATE INDEX robots_by_time ON robots (fetched_at);
CREATE INDEX deliveries_dead ON deliveries (created_at) WHERE state = 'dead';
CREATE INDEX gaps_by_time ON gaps (at);
CREATE INDEX bursts_by_end ON bursts (ended_at) WHERE ended_at IS NOT NULL;
