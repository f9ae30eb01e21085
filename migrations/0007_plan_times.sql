-- The times of a plan, in one row with it: a row for each would be fifty million for a million sources.
-- A JSON list of milliseconds after starts_at; NULL: forgotten, because there are later plans.
ALTER TABLE plans ADD COLUMN times TEXT;
UPDATE plans SET times = (
    SELECT json_group_array(at - plans.starts_at)
    FROM (SELECT at FROM plan_probes WHERE plan_id = plans.id ORDER BY at))
WHERE id IN (SELECT plan_id FROM plan_probes);

DROP VIEW readable_plan_probes;
DROP TABLE plan_probes;
CREATE VIEW plan_probes AS
SELECT plans.id AS plan_id, plans.starts_at + planned.value AS at FROM plans, json_each(plans.times) AS planned;

CREATE VIEW readable_plan_probes AS
SELECT pp.plan_id, s.name AS source, strftime('%Y-%m-%dT%H:%M:%fZ', pp.at / 1000.0, 'unixepoch') AS at
FROM plan_probes pp JOIN plans p ON p.id = pp.plan_id JOIN sources s ON s.id = p.source_id;

-- At a start every budget is counted from the log: with its end in the index, no probe need be looked up.
DROP INDEX probes_by_source;
CREATE INDEX probes_by_source ON probes (source_id, started_at, duration_ms);
