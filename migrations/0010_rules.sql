-- What an item is labelled with, as JSON lists: what rules may ask about. NULL: nothing.
ALTER TABLE updates ADD COLUMN authors TEXT;
ALTER TABLE updates ADD COLUMN categories TEXT;

DROP VIEW readable_updates;
CREATE VIEW readable_updates AS
SELECT u.id, s.name AS source, u.probe_id,
       strftime('%Y-%m-%dT%H:%M:%fZ', u.detected_at / 1000.0, 'unixepoch') AS detected_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', u.occurred_at / 1000.0, 'unixepoch') AS occurred_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', u.occurred_after / 1000.0, 'unixepoch') AS occurred_after,
       u.occurred_exact, u.kind, u.key, u.title, u.link, u.authors, u.categories
FROM updates u JOIN sources s ON s.id = u.source_id;

-- The rule that asks for the next probe, if one does: profile/rule.
ALTER TABLE sources ADD COLUMN next_probe_rule TEXT;

-- How far rules are.
CREATE TABLE rule_states (
    rule             TEXT NOT NULL,           -- profile/rule
    source_id        INTEGER NOT NULL,        -- 0: all of them together
    counted          INTEGER NOT NULL,        -- updates since somebody was last told
    executable_since INTEGER,
    executable_until INTEGER,
    PRIMARY KEY (rule, source_id)
) STRICT, WITHOUT ROWID;

CREATE VIEW readable_rule_states AS
SELECT r.rule, s.name AS source, r.counted,
       strftime('%Y-%m-%dT%H:%M:%fZ', r.executable_since / 1000.0, 'unixepoch') AS executable_since,
       strftime('%Y-%m-%dT%H:%M:%fZ', r.executable_until / 1000.0, 'unixepoch') AS executable_until
FROM rule_states r LEFT JOIN sources s ON s.id = r.source_id;

-- What was caught and waits until as many have come as the rule wants.
CREATE TABLE held_matches (
    id        INTEGER PRIMARY KEY,
    rule      TEXT NOT NULL,                  -- profile/rule
    source_id INTEGER NOT NULL REFERENCES sources (id),
    at        INTEGER NOT NULL,
    item      TEXT NOT NULL                   -- JSON
) STRICT;
CREATE INDEX held_matches_by_rule ON held_matches (rule, source_id);

CREATE VIEW readable_held_matches AS
SELECT h.id, h.rule, s.name AS source, strftime('%Y-%m-%dT%H:%M:%fZ', h.at / 1000.0, 'unixepoch') AS at, h.item
FROM held_matches h JOIN sources s ON s.id = h.source_id;
