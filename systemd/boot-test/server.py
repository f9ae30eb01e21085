#!/usr/bin/python3
"""The web server that the boot test polls. It logs each answer, so that politeness can be judged.

    server.py FOLDER       serves the sources on 127.0.0.1 and appends to FOLDER/requests.log

Each answer is one line of JSON, on the disk before the answer is sent. `began` and `ended` are true time, in seconds:
CLOCK_BOOTTIME plus what the wall clock showed at the start of this boot. If the test sets the clock, true time does
not move. After a boot, the wall clock of the machine says for how long it was off.
"""
import http.server
import json
import os
import socket
import sys
import threading
import time
from email.utils import formatdate

# Each port is a site of its own.
PORTS = {"steady": 8101, "limited": 8102, "slow": 8103, "page": 8104, "spent": 8105, "pair": 8106, "added": 8107,
         "hook": 8108}
NEW_ITEM_EVERY = 5      # seconds
PAGE_CHANGES_EVERY = 20
ITEMS_SHOWN = 150
SLOW_ANSWER = 8
RETRY_AFTER = 90
FIRST_ITEMS = 10        # published before the test, without dates
LOG_BYTES = 8 << 20
FROZEN = "/run/tidewatch-boot-test.frozen"              # while it exists, nothing is published
IN_PROGRESS = "/run/tidewatch-boot-test.in-progress"    # exists while the slow site answers
BASE = "/run/tidewatch-boot-test.base"                  # true time at the start of this boot


def since_boot():
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def base():
    """True time at the start of this boot. The first call must come before the test sets the clock."""
    if not os.path.exists(BASE):
        with open(BASE, "w") as file:
            file.write(repr(time.time() - since_boot()))
    with open(BASE) as file:
        return float(file.read())


def read_log(path):
    """The lines of the log, and its length. Zeros follow it, and after a crash perhaps a part of a line."""
    with open(path, "rb") as file:
        text = file.read().split(b"\0", 1)[0]
    text = text[:text.rfind(b"\n") + 1]
    return [json.loads(line) for line in text.splitlines()], len(text)


class Log:
    """Survives a crash of the machine, without saving the files of the daemon with it.

    The file has its full size from the start. So fdatasync writes its blocks only, and the file system commits no
    journal, which would write the daemon's changes too.
    """

    def __init__(self, path):
        if not os.path.exists(path):
            with open(path, "wb") as file:
                file.write(bytes(LOG_BYTES))
        self.lines, self.end = read_log(path)
        self.lock = threading.Lock()
        self.file = os.open(path, os.O_RDWR)
        os.pwrite(self.file, bytes(min(1 << 16, LOG_BYTES - self.end)), self.end)
        os.fsync(self.file)

    def append(self, line):
        data = json.dumps(line).encode() + b"\n"
        with self.lock:
            assert self.end + len(data) <= LOG_BYTES, "the log of the server is full"
            os.pwrite(self.file, data, self.end)
            os.fdatasync(self.file)
            self.end += len(data)


class Publisher:
    """Publishes items and versions of the page while the machine runs, starting from the last that were shown."""

    def __init__(self, log):
        self.dates = {int(n): at for line in log.lines for n, at in line.get("dates", {}).items()}
        self.newest = max([FIRST_ITEMS, *self.dates, *(line["newest"] for line in log.lines if "newest" in line)])
        self.version = max([1, *(line["version"] for line in log.lines if "version" in line)])
        self.base = base()
        self.next_item = self.next_version = since_boot() + NEW_ITEM_EVERY
        self.unlogged = {}
        self.lock = threading.Lock()

    def publish(self):
        """Publishes what is due. Returns the newest item, the dates of items that no line has, and the version."""
        with self.lock:
            now = since_boot()
            if os.path.exists(FROZEN):
                self.next_item, self.next_version = now + NEW_ITEM_EVERY, now + PAGE_CHANGES_EVERY
            while self.next_item <= now:
                self.newest += 1
                self.dates[self.newest] = self.unlogged[self.newest] = int(self.base + self.next_item)
                self.next_item += NEW_ITEM_EVERY
            while self.next_version <= now:
                self.version += 1
                self.next_version += PAGE_CHANGES_EVERY
            return self.newest, self.version

    def take_unlogged(self):
        with self.lock:
            dates, self.unlogged = self.unlogged, {}
            return dates

    def feed(self, name, newest):
        items = []
        for n in range(newest, max(0, newest - ITEMS_SHOWN), -1):
            date = f"<pubDate>{formatdate(self.dates[n], usegmt=True)}</pubDate>" if n in self.dates else ""
            items.append(f'<item><title>{name} {n}</title><guid isPermaLink="false">{name}-{n}</guid>'
                         f"<link>http://127.0.0.1/{name}/{n}</link>{date}</item>")
        return (f'<?xml version="1.0"?><rss version="2.0"><channel><title>{name}</title>'
                f"<link>http://127.0.0.1/</link><description>{name}</description>{''.join(items)}</channel></rss>")


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, body="", kind="text/plain", headers=(), **line):
        base = self.server.publisher.base
        line.update(site=self.server.site, path=self.path, status=status, began=self.began, ended=base + since_boot())
        self.server.log.append(line)
        self.send_response(status)
        for name, value in [("Content-Type", kind), ("Content-Length", str(len(body.encode()))), *headers]:
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body.encode())

    def begin(self):
        self.began = self.server.publisher.base + since_boot()

    def do_POST(self):
        self.begin()
        document = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        titles = [item["title"] for item in document["items"]]
        self.answer(200, key=self.headers["Idempotency-Key"], titles=titles)

    def do_GET(self):
        self.begin()
        server, name = self.server, self.path.strip("/")
        newest, version = server.publisher.publish()
        if self.path == "/robots.txt":
            return self.answer(200, "User-agent: *\nDisallow: /private\n")
        if server.site == "page":
            body = f"<html><body><main><p>version {version}</p></main></body></html>"
            return self.answer(200, body, "text/html", version=version)
        if server.site == "limited":
            server.answers += 1
            if server.answers % 2 == 0:
                headers = [("Retry-After", str(RETRY_AFTER))]
                return self.answer(429, headers=headers, retry_after=RETRY_AFTER)
        if server.site == "slow":
            with open(IN_PROGRESS, "w"):
                pass
            time.sleep(SLOW_ANSWER)
            os.unlink(IN_PROGRESS)
        if server.site == "spent":
            newest = FIRST_ITEMS
        body = server.publisher.feed(name, newest)
        dates = server.publisher.take_unlogged()
        return self.answer(200, body, "application/rss+xml", newest=newest, dates=dates)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    answers = 0


def report_ready():
    path = os.environ.get("NOTIFY_SOCKET")
    if path:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.connect("\0" + path[1:] if path[0] == "@" else path)
            manager.send(b"READY=1")


def main():
    log = Log(os.path.join(sys.argv[1], "requests.log"))
    publisher = Publisher(log)
    for site, port in PORTS.items():
        server = Server(("127.0.0.1", port), Handler)
        server.site, server.log, server.publisher = site, log, publisher
        threading.Thread(target=server.serve_forever, daemon=True).start()
    report_ready()
    threading.Event().wait()


if __name__ == "__main__":
    main()
