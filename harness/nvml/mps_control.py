# SPDX-License-Identifier: GPL-3.0-or-later
"""An imitation of `nvidia-cuda-mps-control`: daemon and command line in one program, as the original; no CUDA, no GPU.

It needs nothing but Python, so that it runs on a sandbox host under the original's name (imitated_mps.py says how). GPUs stand in the
table that mps_cuda.c reads too (RIGWRIGHT_IMITATED_CUDA). Verbs, replies and options are those of NVIDIA's pages "Legacy MPS v2 Interface" and "MPS v3
Interface" (docs.nvidia.com/deploy/mps, release 615). What those do not show is as public recordings have it: percentages come back as
`50.0`, a memory limit of a GiB or more in whole GiB, rounded down (driver 595.91.07), no daemon is "Cannot find MPS control daemon
process" and exit status 1.

Tests have verbs of their own, on protocol 2: `imitated_client UID PID COMMAND`, `imitated_exit PID`, `imitated_fault SERVER PID`.
"""

from __future__ import annotations

import json
import os
import socket
import sys
from typing import Any

from harness.nvml.mps_state import Options, pipe_directory

NO_DAEMON = "Cannot find MPS control daemon process"
SECOND = "An instance of this daemon is already running"


def parse(arguments: list[str]) -> Options:
    options = Options()
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if word in ("-d", "--daemon"):
            options.daemon = True
        elif word in ("-f", "--foreground"):
            options.foreground = True
        elif word in ("-S", "--static-partitioning"):
            options.static = True
        elif word in ("-multiuser-server", "-m", "--multiuser"):
            options.multiuser = True
        elif word in ("-p", "--protocol"):
            options.protocol = int(rest.pop(0))
        elif word in ("-a", "--apply"):
            options.apply = rest.pop(0)
        elif word in ("-q", "--quit"):
            options.quit = True
        else:
            options.words = [word, *rest]
            break
    options.protocol = int(os.environ.get("CUDA_MPS_PROTOCOL_VERSION", options.protocol))
    return options


def ask(request: dict[str, Any]) -> tuple[int, str]:
    """:raises OSError: no daemon."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.connect(f"{pipe_directory()}/control")
        connection.sendall(f"ui {json.dumps(request)}\n".encode())
        got = b"".join(iter(lambda: connection.recv(65536), b"")).decode()
    status, _, text = got.partition("\n")
    return int(status), text


def main() -> int:
    options = parse(sys.argv[1:])
    if options.daemon or options.foreground:
        try:
            ask({"words": ["server", "list"], "lines": []})
        except OSError:
            pass
        else:
            print(SECOND)
            return 1
        if options.daemon:
            if os.fork():
                return 0
            os.setsid()
            null = os.open(os.devnull, os.O_RDWR)
            for descriptor in range(3):
                os.dup2(null, descriptor)
        from harness.nvml import mps_daemon, mps_protocol3

        return (mps_protocol3.Daemon3 if options.protocol == 3 else mps_daemon.Daemon)(options).run()
    try:
        if options.quit:
            return ask({"quit": True})[0]
        lines = [] if options.words else sys.stdin.read().splitlines()
        status, text = ask({"words": options.words, "lines": lines})
    except OSError:
        print(NO_DAEMON)
        return 1
    sys.stdout.write(text)
    return status


if __name__ == "__main__":
    sys.exit(main())
