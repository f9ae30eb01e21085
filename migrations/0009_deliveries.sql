-- What somebody is to be told: written with the update it is about, sent from here, at least once and in order.
CREATE TABLE deliveries (
    id             INTEGER PRIMARY KEY,
    key            TEXT NOT NULL,              -- the same whenever the same is sent
    profile        TEXT NOT NULL,
    rule           TEXT NOT NULL,
    target         TEXT NOT NULL,              -- exec:…, webhook:…, atom:…
    source_id      INTEGER NOT NULL REFERENCES sources (id),
    created_at     INTEGER NOT NULL,
    state          TEXT NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'delivered', 'dead')),
    attempts       INTEGER NOT NULL DEFAULT 0,
    first_tried_at INTEGER,
    next_at        INTEGER,                    -- not before; NULL: at once
    delivered_at   INTEGER,
    last_error     TEXT,
    document       TEXT NOT NULL,              -- JSON as it is sent; last, because it may be long
    UNIQUE (target, key)
) STRICT;
CREATE INDEX deliveries_waiting ON deliveries (target, id) WHERE state = 'waiting';
CREATE INDEX deliveries_by_target ON deliveries (target, id);
CREATE INDEX deliveries_delivered ON deliveries (delivered_at) WHERE state = 'delivered';

CREATE VIEW readable_deliveries AS
SELECT d.id, d.key, d.profile, d.rule, d.target, s.name AS source,
       strftime('%Y-%m-%dT%H:%M:%fZ', d.created_at / 1000.0, 'unixepoch') AS created_at,
       d.state, d.attempts,
       strftime('%Y-%m-%dT%H:%M:%fZ', d.first_tried_at / 1000.0, 'unixepoch') AS first_tried_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', d.next_at / 1000.0, 'unixepoch') AS next_at,
       strftime('%Y-%m-%dT%H:%M:%fZ', d.delivered_at / 1000.0, 'unixepoch') AS delivered_at,
       d.last_error, d.document
FROM deliveries d JOIN sources s ON s.id = d.source_id;
