-- A new source gets a few early probes.
ALTER TABLE sources ADD COLUMN early_probes INTEGER NOT NULL DEFAULT 0;  -- how many of them were used
UPDATE sources SET early_probes = 3 WHERE last_look_at IS NOT NULL;
