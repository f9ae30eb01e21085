-- `review_at` holds for the settings with this hash only.
ALTER TABLE sources ADD COLUMN review_settings INTEGER;
