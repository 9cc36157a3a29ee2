"""Take a message by mail, HTML and Markdown as services do, and print what each got: runs with the Python that has apprise."""

from __future__ import annotations

import email
import http.server
import importlib
import json
import socket
import sys
import threading
from typing import Any

TEXT = "alice: @everyone <!channel> <b>x</b> [click](http://example.org) backup@home.service: no <config/>\nsecond line"
MAIL, CHAT = 10025, 10081
ADDRESSES = {
    "mail": f"mailto://127.0.0.1:{MAIL}?smtp=127.0.0.1&mode=insecure&from=a@example.org&to=b@example.org",
    "html": "tgram://123456789:abcdefg_hijklmnop/12345678/",
    "markdown": "discord://123456789/abcdefghijkl?format=markdown",
}
found: dict[str, Any] = {}


class Chat(http.server.BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        found["chat"] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(b'{"ok": true, "result": {}}')

    def log_message(self, format: str, *args: Any) -> None:
        pass


def serve_mail(server: socket.socket) -> None:
    answers = {b"EHLO": b"250 sink", b"DATA": b"354 go on", b"QUIT": b"221 end"}
    client, _address = server.accept()
    with client, client.makefile("rwb", buffering=0) as stream:
        stream.write(b"220 sink\r\n")
        for line in iter(stream.readline, b""):
            stream.write(answers.get(line[:4].upper(), b"250 ok") + b"\r\n")
            if line[:4].upper() == b"DATA":
                message = email.message_from_bytes(b"".join(iter(stream.readline, b".\r\n")))
                parts = [part for part in message.walk() if not part.is_multipart()]
                found["mail"] = {
                    part.get_content_type(): part.get_payload(decode=True).decode()  # type: ignore[union-attr]
                    for part in parts
                }
                stream.write(b"250 ok\r\n")


def main() -> None:
    # The program is an archive of modules.
    sys.path.insert(0, sys.argv[1])
    notifier = importlib.import_module(
        "ansible_collections.rigwright.workstation.plugins.module_utils._system.notifier"
    )
    chat = http.server.ThreadingHTTPServer(("127.0.0.1", CHAT), Chat)
    threading.Thread(target=chat.serve_forever, daemon=True).start()
    threading.Thread(target=serve_mail, args=[socket.create_server(("127.0.0.1", MAIL))], daemon=True).start()
    for name, service in (("telegram", "NotifyTelegram"), ("discord", "NotifyDiscord")):
        getattr(importlib.import_module(f"apprise.plugins.{name}"), service).notify_url = f"http://127.0.0.1:{CHAT}/x"
    for kind, address in ADDRESSES.items():
        problems = notifier.send(notifier.targets([address]), "ws1: <b>title</b>", TEXT)
        found[kind] = [problems, found.pop("mail" if kind == "mail" else "chat", None)]
    print(json.dumps(found))


if __name__ == "__main__":
    main()
