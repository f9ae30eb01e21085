-- A robots.txt that was read because a redirect led to its origin: few of these are kept, and little of each.
ALTER TABLE robots ADD COLUMN redirect_site TEXT;  -- the site of that origin; NULL: a source has, or had, this origin
CREATE INDEX robots_of_redirects ON robots (redirect_site, fetched_at) WHERE redirect_site IS NOT NULL;
DROP VIEW readable_robots;
CREATE VIEW readable_robots AS
SELECT origin, strftime('%Y-%m-%dT%H:%M:%fZ', fetched_at / 1000.0, 'unixepoch') AS fetched_at, http_status,
       length(body) AS bytes, strftime('%Y-%m-%dT%H:%M:%fZ', failed_at / 1000.0, 'unixepoch') AS failed_at, failures,
       crawl_delay_ms, redirect_site
FROM robots;
