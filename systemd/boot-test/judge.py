#!/usr/bin/python3
"""Judges the daemon by the log of the server and by its store. Exits with 1 and says why if something is wrong.

    judge.py FOLDER COMMAND …
    now                         prints true time, see server.py
    polite SINCE                spacing, budgets, Retry-After and sites were obeyed by the requests since then
    reached SINCE N SOURCE…     each source had at least N requests since then
    quiet SINCE                 no request came since then
    complete SOURCE…            each item that was shown is an update once, and was delivered; waits for it
    recorded                    each request has a row in the log of probes
    last                        prints the number of the last probe
    sound LAST                  durations and gaps of the probes after it, and all dates, are right
    events KIND                 prints the number of events of this kind
    spent SOURCE                the source had all the requests of its budget
"""
import collections
import os
import re
import sqlite3
import sys
import time
import tomllib

import server

STORE = "/var/lib/private/tidewatch/tidewatch.db"
CONFIG = "/etc/tidewatch/tidewatch.toml"
# A request arrives some time after its start was decided, and later on a busy machine.
TOLERANCE = 1.0
WAIT = 60


def lines():
    return server.read_log(os.path.join(sys.argv[1], "requests.log"))[0]


def probes(since=0.0):
    """The requests of each source, in order."""
    found = collections.defaultdict(list)
    for line in lines():
        if "key" not in line and line["path"] != "/robots.txt" and line["began"] >= since:
            found[line["path"].strip("/")].append(line)
    for requests in found.values():
        requests.sort(key=lambda line: line["began"])
    return found


def rows(sql, *values):
    store = sqlite3.connect(f"file:{STORE}?mode=ro", uri=True, timeout=10)
    try:
        return store.execute(sql, values).fetchall()
    finally:
        store.close()


def seconds(text):
    return int(text[:-1]) * {"s": 1, "m": 60, "h": 3600, "d": 86400}[text[-1]]


def config():
    with open(CONFIG, "rb") as file:
        return tomllib.load(file)


def polite(since):
    broken = collections.defaultdict(list)
    configured, asked = config(), probes()

    def apart(name, earlier, later, least, rule):
        gap = later["began"] - earlier
        if later["began"] >= since and gap < least - TOLERANCE:
            broken[name, rule, least].append((gap, later["began"]))

    for source in configured["source"]:
        name, budget, requests = source["name"], source["budget"], asked[source["name"]]
        n = budget["probes"]
        for request, later in zip(requests, requests[1:]):
            apart(name, request["began"], later, seconds(budget["min_spacing"]), "min_spacing")
            apart(name, request["ended"], later, request.get("retry_after", 0), "Retry-After")
        for request, later in zip(requests, requests[n:]):
            apart(name, request["began"], later, seconds(budget["per"]), f"budget of {n} probes")
    sites = collections.defaultdict(list)
    for requests in asked.values():
        for request in requests:
            sites[request["site"]].append(request)
    for site, requests in sites.items():
        requests.sort(key=lambda line: line["began"])
        for earlier, later in zip(requests, requests[1:]):
            apart(site, earlier["began"], later, seconds(configured["fleet"]["host_spacing"]), "host_spacing")
            # Less than nothing is two requests at once.
            apart(site, earlier["ended"] + TOLERANCE, later, 0, "one request at a time")
    wrong = [f"{name}: {rule}, {least} s: {min(gaps)[0]:.2f} s after the earlier request, at {min(gaps)[1]:.2f}"
             f" ({len(gaps)} times)" for (name, rule, least), gaps in broken.items()]
    robots = [line for line in lines() if line["path"] == "/robots.txt"]
    if len(robots) > 1 and robots[-1]["began"] >= since:
        wrong.append(f"robots.txt was fetched {len(robots)} times within a day")
    return wrong


def reached(since, least, names):
    asked = probes(since)
    return [f"{name}: {len(asked[name])} requests since then" for name in names if len(asked[name]) < least]


def number(title):
    return int(re.search(r"\d+$", title).group())


def incomplete(name, newest, first):
    """What is wrong with the updates of a feed whose items after `first`, up to `newest`, are to be updates."""
    found = collections.Counter((kind, number(title)) for kind, title in rows(
        "SELECT u.kind, u.title FROM updates u JOIN sources s ON s.id = u.source_id WHERE s.name = ?", name))
    wrong = [f"{name}: item {n} is missing" for n in range(first + 1, newest + 1) if not found["new", n]]
    for (kind, n), times in found.items():
        if kind != "new" or n <= first or times > 1:
            wrong.append(f"{name}: item {n} is reported as {kind} {times} times; {first} items were there at first")
    if name == "steady":
        keys = collections.defaultdict(list)
        for line in lines():
            for title in line.get("titles", []):
                keys[number(title)].append(line["key"])
        wrong += [f"{name}: item {n} was not delivered" for n in range(first + 1, newest + 1) if n not in keys]
        wrong += [f"{name}: item {n} was delivered under {len(set(all_))} keys"
                  for n, all_ in keys.items() if len(set(all_)) > 1]
    return wrong


def incomplete_page():
    """What is wrong with the changes of the page. A failed probe may hide a version that only it was shown."""
    changes, failed, running = rows(
        "SELECT (SELECT count(*) FROM updates WHERE source_id = s.id),"
        " (SELECT count(*) FROM probes WHERE source_id = s.id AND outcome = 'failed'),"
        " (SELECT count(*) FROM flights WHERE source_id = s.id) FROM sources s WHERE s.name = 'page'")[0]
    most = len({line["version"] for line in probes()["page"]}) - 1
    if most - failed - running <= changes <= most:
        return []
    return [f"page: {changes} changes are reported, {most} were shown, {failed} probes failed"]


def complete(names):
    asked = probes()
    shown = {name: [line["newest"] for line in asked[name] if "newest" in line] for name in names}
    end = time.monotonic() + WAIT
    while True:
        wrong = [text for name, all_ in shown.items() if all_ for text in incomplete(name, max(all_), all_[0])]
        if "page" in names:
            wrong += incomplete_page()
        if not wrong or time.monotonic() > end:
            return wrong
        time.sleep(0.5)


def recorded():
    # The requests first: a probe is in the log before it is sent.
    asked = probes()
    wrong = []
    for name, requests in asked.items():
        known = rows("SELECT (SELECT count(*) FROM probes WHERE source_id = s.id)"
                     " + (SELECT count(*) FROM flights WHERE source_id = s.id) FROM sources s WHERE s.name = ?", name)
        known = known[0][0] if known else 0
        if known < len(requests):
            wrong.append(f"{name}: {len(requests)} requests were sent, {known} are in the log")
    return wrong


def sound(last):
    wrong = [f"{name}: probe {probe} has a duration of {ms} ms" for name, probe, ms in rows(
        "SELECT s.name, p.id, p.duration_ms FROM probes p JOIN sources s ON s.id = p.source_id"
        " WHERE p.id > ? AND (p.duration_ms NOT BETWEEN 0 AND 70000"
        " OR (s.name = 'slow' AND p.outcome <> 'failed' AND p.duration_ms < ?))",
        last, server.SLOW_ANSWER * 1000 - 500)]
    wrong += [f"{name}: a gap is reported, there is none" for (name,) in rows(
        "SELECT s.name FROM gaps g JOIN sources s ON s.id = g.source_id WHERE g.probe_id > ?", last)]
    # The updates first: what they have was shown before.
    updates = rows("SELECT s.name, u.title, u.occurred_at FROM updates u JOIN sources s ON s.id = u.source_id"
                   " WHERE u.occurred_exact = 1 AND u.kind = 'new'")
    dates = {int(n): at for line in lines() for n, at in line.get("dates", {}).items()}
    for name, title, at in updates:
        if at != dates[number(title)] * 1000:
            wrong.append(f"{name}: {title} has the date {at}, published was {dates[number(title)] * 1000}")
    return wrong


def spent(name):
    budget = next(source["budget"] for source in config()["source"] if source["name"] == name)
    sent = len(probes()[name])
    return [] if sent >= budget["probes"] else [f"{sent} of {budget['probes']} requests"]


def main():
    command, values = sys.argv[2], sys.argv[3:]
    if command == "now":
        print(server.base() + server.since_boot())
        return 0
    if command == "last":
        print(rows("SELECT coalesce(max(id), 0) FROM probes")[0][0] if os.path.exists(STORE) else 0)
        return 0
    if command == "events":
        print(rows("SELECT count(*) FROM events WHERE kind = ?", values[0])[0][0])
        return 0
    wrong = {
        "polite": lambda: polite(float(values[0])),
        "reached": lambda: reached(float(values[0]), int(values[1]), values[2:]),
        "quiet": lambda: [f"{name}: {len(all_)} requests" for name, all_ in probes(float(values[0])).items()],
        "complete": lambda: complete(values),
        "recorded": recorded,
        "sound": lambda: sound(int(values[0])),
        "spent": lambda: spent(values[0]),
    }[command]()
    for text in wrong[:15]:
        print(text)
    if len(wrong) > 15:
        print(f"and {len(wrong) - 15} more")
    return 1 if wrong else 0


sys.exit(main())
