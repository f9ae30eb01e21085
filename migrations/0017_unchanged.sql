-- What need not be written after an answer without updates.
ALTER TABLE sources ADD COLUMN review_settings INTEGER;  -- `review_at` holds for the settings with this hash only
ALTER TABLE sources ADD COLUMN state_hash INTEGER;       -- hash of the columns that a probe seldom changes; NULL: write them
