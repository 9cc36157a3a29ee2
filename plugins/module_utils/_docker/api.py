# Copyright: (c) 2026, The Rigwright engineers
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Ask a running docker about itself, over the socket that its own client uses."""

from __future__ import annotations

import contextlib
import http.client
import json
import socket
import typing as t

from ansible_collections.rigwright.workstation.plugins.module_utils._core.rows import JsonObject

SOCKET = "/run/docker.sock"
# Seconds to wait for an answer of docker.
PATIENCE = 10


class Connection(http.client.HTTPConnection):
    """An HTTP connection over a socket of the host."""

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(PATIENCE)
        self.sock.connect(SOCKET)


def ask(path: str) -> t.Any:
    """Return the answer of docker's API for a path.

    :raises OSError: docker does not answer, or answers with an error.
    """
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


def running_containers() -> list[JsonObject]:
    """Return what docker's API says of each running container.

    :raises OSError: docker does not answer.
    """
    found = []
    for container in ask("/containers/json"):
        # A container may have ended in between.
        with contextlib.suppress(OSError):
            found.append(ask(f"/containers/{container['Id']}/json"))
    return found
