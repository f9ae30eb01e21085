-- A delivery that fails delays later ones of its source only, unless its receiver asked for a pause.
ALTER TABLE deliveries ADD COLUMN pauses_target INTEGER NOT NULL DEFAULT 0;  -- 1: until next_at nothing is sent to the target
DROP INDEX deliveries_waiting;
CREATE INDEX deliveries_waiting ON deliveries (target, id, source_id) WHERE state = 'waiting';
CREATE INDEX deliveries_failed ON deliveries (target, source_id, next_at) WHERE state = 'waiting' AND next_at IS NOT NULL;
CREATE INDEX deliveries_pausing ON deliveries (target, next_at) WHERE state = 'waiting' AND pauses_target = 1;

-- Matches that are no longer held are counted.
ALTER TABLE held_matches ADD COLUMN more INTEGER NOT NULL DEFAULT 0;         -- older matches that were dropped

-- When a page had a text before: a part of the key of its delivery.
CREATE INDEX updates_changed ON updates (source_id, key) WHERE kind = 'changed';
