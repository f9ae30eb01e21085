-- The measures by which policies are compared (Bright, Gal, Raschid, §7.2.3), of what really happened:
-- by source and UTC day, and over all that is logged.
--
-- validations         probes that learned something about the document: all that did not fail
-- useful_validations  those that found it modified
-- freshness_misses    those that found it as it was; a first look is logged as one of them
-- failed              probes that learned nothing, and are no validations
-- average_delay_s     from an update until it was found; NULL where there was none
--
-- A probe counts at its start, an update when it was found. Probes and updates are summed up apart
-- and put together afterwards: joined row by row, a probe that found three updates would count as
-- three. Updates are kept longer than probes, so that the oldest days have no validations.
--
-- All kinds of update have their delay, edits too: each lies between two looks, and occurred_at is
-- its own date where it has one there (of an edit, the item's date of change) and else the middle
-- between the looks. The middle errs to neither side where updates come evenly; of a source that is
-- probed just after its busy hours it makes the delay look longer than it was.

CREATE VIEW daily_measures AS
SELECT source_id, day,
       sum(validations) AS validations, sum(useful_validations) AS useful_validations,
       sum(freshness_misses) AS freshness_misses, sum(failed) AS failed,
       sum(updates) AS updates, max(average_delay_s) AS average_delay_s
FROM (
    SELECT source_id, date(started_at / 1000, 'unixepoch') AS day,
           sum(outcome <> 'failed') AS validations, sum(outcome = 'updated') AS useful_validations,
           sum(outcome IN ('unchanged', 'not_modified')) AS freshness_misses, sum(outcome = 'failed') AS failed,
           0 AS updates, NULL AS average_delay_s
    FROM probes GROUP BY source_id, day
    UNION ALL
    SELECT source_id, date(detected_at / 1000, 'unixepoch') AS day, 0, 0, 0, 0,
           count(*), avg(detected_at - occurred_at) / 1000.0
    FROM updates GROUP BY source_id, day
)
GROUP BY source_id, day;

-- Every source has its row here, also before its first probe and after it was removed.
CREATE VIEW measures AS
SELECT s.id AS source_id,
       coalesce(p.validations, 0) AS validations, coalesce(p.useful_validations, 0) AS useful_validations,
       coalesce(p.freshness_misses, 0) AS freshness_misses, coalesce(p.failed, 0) AS failed,
       coalesce(u.updates, 0) AS updates, u.average_delay_s
FROM sources s
LEFT JOIN (
    SELECT source_id,
           sum(outcome <> 'failed') AS validations, sum(outcome = 'updated') AS useful_validations,
           sum(outcome IN ('unchanged', 'not_modified')) AS freshness_misses, sum(outcome = 'failed') AS failed
    FROM probes GROUP BY source_id
) p ON p.source_id = s.id
LEFT JOIN (
    SELECT source_id, count(*) AS updates, avg(detected_at - occurred_at) / 1000.0 AS average_delay_s
    FROM updates GROUP BY source_id
) u ON u.source_id = s.id;

CREATE VIEW readable_daily_measures AS
SELECT s.name AS source, m.day, m.validations, m.useful_validations, m.freshness_misses, m.failed, m.updates,
       m.average_delay_s
FROM daily_measures m JOIN sources s ON s.id = m.source_id;

CREATE VIEW readable_measures AS
SELECT s.name AS source, s.policy, m.validations, m.useful_validations, m.freshness_misses, m.failed, m.updates,
       m.average_delay_s
FROM measures m JOIN sources s ON s.id = m.source_id;
