"""The depot's HTTP server: laid out as the sites are from which roles download. Runs in the depot's container.

/debian/, /debian-security/   Debian's archive, through the package cache
/stale/...                    the same with release files whose dates lie 30 days further back, as of a forgotten mirror
everything else               files under /srv/www

Every request is one JSON line in /srv/log/requests.jsonl: {"client", "method", "path", "status"}.
"""

from __future__ import annotations

import email.utils
import json
import os
import re
import shutil
import urllib.error
import urllib.request
from datetime import timedelta
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

FILES = "/srv/www"
LOG = Path("/srv/log/requests.jsonl")
# An archive that is reached by https is not cached.
CACHED = urllib.request.build_opener(urllib.request.ProxyHandler({"http": "http://127.0.0.1:3142"}))
ARCHIVES = {"/debian/": os.environ["DEBIAN_MAIN"], "/debian-security/": os.environ["DEBIAN_SECURITY"]}
STALE = "/stale"
STALE_BY = timedelta(days=30)


def upstream(path: str) -> str | None:
    """Return the address in an archive that this path stands for, or None when it is in no archive."""
    for prefix, base in ARCHIVES.items():
        if path.startswith(prefix):
            return f"{base}/{path.removeprefix(prefix)}"
    return None


def aged(release: str) -> str:
    """Return a Release file whose `Date` and `Valid-Until` lie `STALE_BY` further back; its signature no longer holds."""

    def earlier(field: re.Match[str]) -> str:
        moment = email.utils.parsedate_to_datetime(field[2]) - STALE_BY
        return f"{field[1]}: {moment.strftime('%a, %d %b %Y %H:%M:%S')} UTC"

    return re.sub(r"^(Date|Valid-Until): (.+)$", earlier, release, flags=re.MULTILINE)


class Handler(SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, *args: object) -> None:
        super().__init__(*args, directory=FILES)  # type: ignore[arg-type]

    def do_GET(self) -> None:
        address = upstream(self.path.removeprefix(STALE))
        if address:
            self.pass_on(address, with_body=True)
        else:
            super().do_GET()

    def do_HEAD(self) -> None:
        address = upstream(self.path.removeprefix(STALE))
        if address:
            self.pass_on(address, with_body=False)
        else:
            super().do_HEAD()

    def pass_on(self, address: str, *, with_body: bool) -> None:
        conditions = {
            name: self.headers[name] for name in ("If-Modified-Since", "Range", "If-Range") if name in self.headers
        }
        stale = self.path.startswith(STALE) and self.path.endswith("Release")
        # The length of an aged file is known only with its body.
        method = "GET" if stale else self.command
        request = urllib.request.Request(address, headers={} if stale else conditions, method=method)  # noqa: S310
        try:
            answer = CACHED.open(request, timeout=120)
        except urllib.error.HTTPError as error:
            self.send_response(error.code)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        with answer:
            body = aged(answer.read().decode()).encode() if stale else None
            self.send_response(answer.status)
            for name in ("Content-Type", "Last-Modified", "Content-Range"):
                if name in answer.headers:
                    self.send_header(name, answer.headers[name])
            length = len(body) if body is not None else answer.headers["Content-Length"]
            # Without a length the end of the connection is the end of the file.
            self.close_connection = length is None
            if length is not None:
                self.send_header("Content-Length", str(length))
            self.end_headers()
            if with_body and body is not None:
                self.wfile.write(body)
            elif with_body:
                shutil.copyfileobj(answer, self.wfile)

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        del size
        line = {"client": self.client_address[0], "method": self.command, "path": self.path, "status": int(code)}
        with LOG.open("a") as log:
            log.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    ThreadingHTTPServer(("", 80), Handler).serve_forever()
