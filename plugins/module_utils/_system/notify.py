# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Messages for `workstation_notify_urls`: a program hands one to a socket, and never has the addresses, waits or fails.

`_system.notifier` is behind the socket.
"""

from __future__ import annotations

import json
import socket
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core import json_text
from ansible_collections.rigwright.workstation.plugins.module_utils._core.shown import shown

# roles/common/templates/etc/systemd/system/rigwright-notify.socket.j2: root alone may write to it.
SOCKET = "/run/rigwright-notify.socket"
# Both fit into a datagram, also when JSON writes each character as two escape sequences of six bytes.
TITLE, TEXT = 200, 2000
LIMIT = 32768


def send(title: str, text: str, path: str = SOCKET) -> str:
    """Hand a message to the notifier; return the reason why it has not taken it, empty when it has."""
    message = json.dumps({"title": title[:TITLE], "text": text[:TEXT]})
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        try:
            sender.sendto(message.encode("ascii"), path)
        except OSError as error:
            return f"no message was sent ({path}: {error.strerror}): `systemctl status rigwright-notify.socket` has the reason"
    return ""


def parse(datagram: bytes) -> tuple[str, str]:
    """Return the title and the text of a message, without control characters.

    :raises ValueError: it is no message.
    """
    content = json_text.parse(datagram, LIMIT)
    title, text = (_field(content, name) for name in ("title", "text"))
    return shown(title.replace("\n", " "), TITLE), shown(text, TEXT, keep="\n")


def _field(content: t.Any, name: str) -> str:
    value = content.get(name) if isinstance(content, dict) else None
    if not isinstance(value, str):
        raise ValueError(f"it has no {name}")
    return value
