# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a running docker says of itself, over the socket that its own client uses."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import typing as t

SOCKET = "/run/docker.sock"
# How long docker may take for an answer, in seconds.
PATIENCE = 10


class Connection(http.client.HTTPConnection):
    """HTTP over a socket of the host."""

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(PATIENCE)
        self.sock.connect(SOCKET)


def ask(path: str) -> t.Any:
    """:raises OSError: docker does not answer, or with an error."""
    connection = Connection("docker")
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        content = answer.read()
    except http.client.HTTPException as error:
        raise OSError(str(error)) from error
    finally:
        connection.close()
    if answer.status != 200:
        raise OSError(f"docker answers {path} with {answer.status}")
    return json.loads(content)


def running_containers() -> list[t.Mapping[str, t.Any]]:
    """What docker says of each container that runs.

    :raises OSError: docker does not answer.
    """
    found = []
    for container in ask("/containers/json"):
        # One may have ended in between.
        with contextlib.suppress(OSError):
            found.append(ask(f"/containers/{container['Id']}/json"))
    return found
