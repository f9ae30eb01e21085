-- The price of a probe that sources share, hour by hour, and what it was computed from.
CREATE TABLE fleet_prices (
    at                 INTEGER PRIMARY KEY,
    price_hours        REAL NOT NULL,     -- hours of update waiting that a probe must be expected to save
    at_least_every_ms  INTEGER NOT NULL,  -- the longest time between two probes at any price
    shared_per_hour    REAL NOT NULL,     -- probes per hour expected of sources that share the price
    fixed_per_hour     REAL NOT NULL,     -- probes per hour expected of other sources
    shared_sent        REAL NOT NULL,     -- probes of about the last day of sources that share the price ...
    shared_expected    REAL NOT NULL,     -- ... and how many were expected
    fixed_sent         REAL NOT NULL,     -- the same of other sources
    fixed_expected     REAL NOT NULL
) STRICT;

CREATE VIEW readable_fleet_prices AS
SELECT strftime('%Y-%m-%dT%H:%M:%fZ', at / 1000.0, 'unixepoch') AS at,
       price_hours * 3600.0 AS price_s, at_least_every_ms / 1000.0 AS at_least_every_s,
       shared_per_hour, fixed_per_hour, shared_sent, shared_expected, fixed_sent, fixed_expected
FROM fleet_prices;

-- Mean over the week of the root of a source's rate per hour, from the last fit.
ALTER TABLE sources ADD COLUMN root_rate REAL;
