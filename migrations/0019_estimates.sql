-- The estimate of a rate is written only if it changed; time without updates is added when it is read.
ALTER TABLE sources ADD COLUMN estimate_until INTEGER;  -- `estimate` has counted up to here
